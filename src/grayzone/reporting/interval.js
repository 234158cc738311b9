"use strict";
// Intervals for mean costs, as in grayzone.decision.cost_interval.
const costInterval = (function () {
  const TAIL = 0.025, TINY = 1e-300;
  const LANCZOS = [76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155,
    1.208650973866179e-3, -5.395239384953e-6];
  const logGamma = (x) => {
    const series = LANCZOS.reduce((total, c, j) => total + c / (x + 1 + j), 1.000000000190015);
    return (x + 0.5) * Math.log(x + 5.5) - x - 5.5 + Math.log((2.5066282746310005 * series) / x);
  };

  // The continued fraction of the incomplete Beta function, by Lentz's method.
  function fraction(x, a, b) {
    let c = 1, d = 1 / (1 - ((a + b) * x) / (a + 1)), found = d;
    for (let m = 1; m <= 500; m++) {
      const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
      const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
      for (const term of [even, odd]) {
        d = 1 / (1 + term * d || TINY);
        c = 1 + term / c || TINY;
        found *= c * d;
      }
      if (Math.abs(c * d - 1) < 1e-10) break;
    }
    return found;
  }

  // Newton's steps in log-odds, between ends that close in.
  function quantile(probability, a, b) {
    const whole = logGamma(a + b) - logGamma(a) - logGamma(b);
    let low = -700, high = 700, at = Math.log(a / b);
    for (let k = 0; k < 200; k++) {
      const x = 1 / (1 + Math.exp(-at)), rest = 1 / (1 + Math.exp(at));
      const density = Math.exp(whole + a * Math.log(x || TINY) + b * Math.log(rest || TINY));
      const below = x < (a + 1) / (a + b + 2)
        ? (density * fraction(x, a, b)) / a : 1 - (density * fraction(rest, b, a)) / b;
      if (below < probability) low = at; else high = at;
      const next = at - (below - probability) / density;
      const to = next > low && next < high ? next : (low + high) / 2;
      const done = Math.abs(to - at) < 1e-6;
      at = to;
      if (done) break;
    }
    return 1 / (1 + Math.exp(-at));
  }

  function end(sums, n, probability) {
    const [w, w2, c, c1, c2] = sums, mean = c / w, room = mean * (1 - mean);
    const variance = ((c2 - 2 * mean * c1 + mean * mean * w2) / (w * w)) * ((n + 1) / (n + 2));
    if (!(variance > 0)) return mean;
    if (variance >= room) return probability > 0.5 ? 1 : 0;
    const size = room / variance - 1;
    return quantile(probability, mean * size, (1 - mean) * size);
  }

  // Sums of rows (weights, their squares, costs, costs times weights and squared), what is expected
  // of one more that is decided wrong, the least and the most a decision costs.
  return function (sums, wrong, n, best, most, forgiven) {
    const unit = most - best;
    if (!(unit > 0)) return [best, best];
    const scaled = ([w, w2, c, c1, c2]) => [w, w2, c / unit, c1 / unit, c2 / (unit * unit)];
    const [w, w2, c, c1, c2] = sums;
    const seen = scaled([w, w2, c - best * w, c1 - best * w2, c2 - 2 * best * c1 + best * best * w2]);
    const errors = seen[4] > 0 ? (seen[2] * seen[2]) / seen[4] : 0;
    const kept = errors > forgiven ? 1 - forgiven / errors : 0, usual = w / n;
    const fewer = seen.map((x, j) => (j < 2 ? x + [usual, usual * usual][j] : x * kept));
    const worse = scaled(wrong).map((x, j) => x + seen[j]);
    return [best + unit * end(fewer, n, TAIL), best + unit * end(worse, n, 1 - TAIL)];
  };
})();
