"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const own = data.binary && data.binary.steps ? data.binary : null; // decisions that cuts explain
  const K = data.classes.length, UNDECIDED = K, WIDE = 1.96;
  const mayRefer = data.reject_cost !== null, factors = K > 2 || data.has_row_costs;
  const last = own ? own.steps.length : 0;
  const byId = (id) => document.getElementById(id);
  const all = (selector) => [...document.querySelectorAll(selector)];
  // rare things have small shares: two digits of them
  const percent = (x) => {
    const share = 100 * x, size = Math.abs(share);
    if (!Number.isFinite(share)) return "–";
    return (size < 1e-6 ? "0.0" : size < 1 ? String(Number(share.toPrecision(2))) : share.toFixed(1)) + " %";
  };
  const short = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(4))) : "–");
  const many = (x) => (Number.isFinite(x)
    ? x.toLocaleString("en", { maximumFractionDigits: Math.abs(x) < 100 ? 1 : 0 }) : "–");
  const sum = (values) => values.reduce((a, b) => a + b, 0);

  // Sums are from a step on: the first is of all rows, and beyond the last there are none.
  if (own) {
    for (const sums of own.sums) {
      for (const part of [sums.w, sums.w2, ...(sums.right || []), ...(sums.wrong || [])]) part.push(0);
    }
  }

  // A field as it was is the exact number, not its rounded text.
  function field(id, exact, least, most) {
    const node = byId(id);
    if (!node || node.value === node.defaultValue) return exact;
    const value = node.valueAsNumber;
    return Number.isFinite(value) && value >= least && value <= most ? value : exact;
  }

  function settings() {
    const share = data.counts[1] / data.mass;
    const now = {
      cases: field("cases", data.mass, 0, Infinity),
      capacity: field("capacity", Infinity, 0, Infinity),
      share: field("share", 100 * share, 0, 100) / 100,
      refer: mayRefer ? field("cost-undecided", data.reject_cost, 0, Infinity) : 0,
      costs: data.classes.map((_, k) =>
        field("cost-" + k, factors ? 1 : data.costs[k][1 - k], 0, Infinity)),
    };
    // a class that is as frequent as it was keeps the weights of its rows, exactly
    const moved = K === 2 && byId("share") && byId("share").value !== byId("share").defaultValue;
    now.weights = moved ? [(1 - now.share) / (1 - share), now.share / share] : data.classes.map(() => 1);
    if (!moved && K === 2) now.share = share;
    now.ratio = moved ? now.weights[1] / now.weights[0] : 1;
    return now;
  }

  // Sums of a cell: weights, their squares, costs, and costs times weights and squared.
  const constant = (w, w2, v) => [w, w2, w * v, w2 * v, w2 * v * v];
  const weighted = ([w, w2, c, c1, c2], f) => [f * w, f * f * w2, f * c, f * f * c1, f * f * c2];

  function cell(now, k, action, from, to) {
    const sums = own.sums[k], part = (values) => values[from] - values[to];
    const w = part(sums.w), w2 = part(sums.w2), right = action === k;
    if (action === UNDECIDED) return constant(w, w2, now.refer);
    if (!data.has_row_costs) return constant(w, w2, right ? data.costs[k][k] : now.costs[k]);
    const [c, c1, c2] = (right ? sums.right : sums.wrong).map(part), f = right ? 1 : now.costs[k];
    return [w, w2, f * c, f * c1, f * f * c2];
  }

  // Rows by truth and action, at cuts or, where none explain the decisions, as they were decided.
  function cells(now, low, high) {
    return data.classes.map((_, k) => {
      const found = own
        ? [[0, 0, low], [1, high, last + 1], [UNDECIDED, low, high]].map(
          ([action, from, to]) => cell(now, k, action, from, to))
        : data.cells[k].map(([w, w2, c, c1, c2], action) => {
          if (action === UNDECIDED) return constant(w, w2, now.refer);
          if (action === k) return [w, w2, c, c1, c2];
          if (!factors) return constant(w, w2, now.costs[k]);
          const f = now.costs[k];
          return [w, w2, f * c, f * c1, f * f * c2];
        });
      return found.map((one) => weighted(one, now.weights[k]));
    });
  }

  // Cost of a decision: the mean, its standard error, and the sums that its interval is made of.
  function mean(table) {
    const total = [0, 0, 0, 0, 0], n = data.n_rows;
    for (const row of table) for (const one of row) for (let j = 0; j < 5; j++) total[j] += one[j];
    const [mass, squares, paid, paid1, paid2] = total, cost = paid / mass;
    const spread = paid2 - 2 * cost * paid1 + cost * cost * squares;
    return { cost: cost, error: Math.sqrt(Math.max(spread, 0) * (n / (n - 1))) / mass, mass: mass, sums: total };
  }

  // One error more, of the class whose errors are dearest at the costs in force.
  function between(now, sums) {
    const { best, unit, most, one_more, forgiven } = data.interval, there = (_, k) => one_more[k][0] > 0;
    const own = data.costs.map((costs, k) => costs.map((cost, action) =>
      (action === k ? cost : factors ? now.costs[k] * cost : now.costs[k])));
    const least = data.has_row_costs ? best : Math.min(...own.filter(there).flat());
    const worst = own.map((costs, k) => (data.has_row_costs ? now.costs[k] * most[k] : Math.max(...costs) - least));
    const wrong = one_more.map(([w, w2, c, c1, c2], k) => {
      const f = now.costs[k] * unit, one = data.has_row_costs ? [w, w2, f * c, f * c1, f * f * c2] : constant(w, w2, worst[k]);
      return weighted(one, now.weights[k]);
    });
    const dearest = wrong.reduce((a, b) => (b[2] > a[2] ? b : a));
    const refers = now.refer - least, dear = Math.max(mayRefer ? refers : 0, ...worst.filter(there));
    return costInterval(sums, dearest, data.n_rows, least, least + dear, forgiven);
  }

  // Deciding always the same way, or, of what somebody looks at, as often as there is capacity for.
  const room = (now) => Math.min(1, now.capacity / now.cases);
  function rules(now) {
    const mass = sum(data.counts.map((w, k) => now.weights[k] * w));
    const found = data.classes.map((_, action) => sum(data.classes.map((_, k) => {
      if (action === k) return now.weights[k] * data.per_rule[k][action];
      const wrong = factors ? now.costs[k] * data.per_rule[k][action] : now.costs[k] * data.counts[k];
      return now.weights[k] * wrong;
    })) / mass);
    if (mayRefer) found.push(now.refer);
    const part = own ? room(now) : 1;
    return found.map((cost, k) => (k && part < 1 ? part * cost + (1 - part) * found[0] : cost));
  }

  function outcome(now, low, high) {
    const table = cells(now, low, high), found = mean(table), at = rules(now);
    const w = table.map((row) => row.map((one) => one[0])), to = (x) => (x / found.mass) * now.cases;
    const undecided = mayRefer ? sum(w.map((row) => row[UNDECIDED] || 0)) : 0;
    Object.assign(found, {
      table: w.map((row) => row.map(to)), rules: at, best: Math.min(...at), undecided: undecided / found.mass,
    });
    if (K === 2) {
      const [[tn, fp], [fn, tp]] = w, alarms = tp + fp;
      Object.assign(found, {
        recall: tp / sum(w[1]), fpr: fp / sum(w[0]), precision: alarms ? tp / alarms : NaN,
        alarms: alarms / found.mass, looked: to(alarms + undecided),
      });
    }
    return found;
  }

  // Where the sliders stand for the cuts of these costs; probabilities follow the share of positives.
  function bayes(now) {
    let low, high;
    if (data.has_row_costs) {
      const free = own.sums.every((s) => s.right[0][0] === 0) && !mayRefer;
      low = high = free || now.costs.every((c) => c === 1) ? now.costs[0] / (now.costs[0] + now.costs[1]) : NaN;
    } else {
      const [alarm, miss] = now.costs, right = [data.costs[0][0], data.costs[1][1]];
      low = high = (alarm - right[0]) / (alarm - right[0] + miss - right[1]);
      if (mayRefer) {
        const from = (now.refer - right[0]) / (miss - right[0]), to = (alarm - now.refer) / (alarm - right[1]);
        if (from < to) [low, high] = [Math.max(from, 0), Math.min(to, 1)];
      }
    }
    return [low, high].map((cut) => (now.ratio === 1 ? cut : cut / (cut + (1 - cut) * now.ratio)));
  }

  const nearest = (cut) => own.steps.reduce(
    (best, step, k) => (Math.abs(step - cut) < Math.abs(own.steps[best] - cut) ? k : best), 0);

  // The cheapest cuts that leave no more cases to look at than there is capacity for. What they cost
  // is a sum of what depends on the lower one and what depends on the upper one.
  function cheapest(now, capacity) {
    const steps = own.steps.map((_, k) => k + 1);
    const at = (low, high) => mean(cells(now, low, high)).cost;
    const rows = (k) => sum(own.sums.map((sums, j) => now.weights[j] * sums.w[k]));
    const most = (capacity / now.cases) * rows(0) * (1 + 1e-12);
    const fits = steps.filter((k) => rows(k) <= most), allowed = fits.length ? fits : [last];
    if (!mayRefer) {
      const costs = allowed.map((k) => at(k, k));
      const k = allowed[costs.indexOf(Math.min(...costs))];
      return [k, k];
    }
    const none = at(0, last + 1);
    let best = Infinity, found = null, low = null, least = Infinity;
    for (const k of allowed) { // looked at is all from the lower cut on: fewer, the higher it is
      const below = at(k, last + 1);
      if (below < least) [least, low] = [below, k];
      const both = least + at(0, k) - none;
      if (both < best) [best, found] = [both, [low, k]];
    }
    return found;
  }

  const write = (name, text) => {
    for (const node of all('[data-out="' + name + '"]')) if (node.textContent !== text) node.textContent = text;
  };
  const quoted = (k, now) => {
    if (K === 2 && k === 0) return "never “" + data.classes[1] + "”";
    if (own && room(now) < 1) {
      return (k === UNDECIDED ? "refer " : "“" + data.classes[k] + "” for ") + many(now.capacity) + " at random";
    }
    return k === UNDECIDED ? "refer everyone" : "always “" + data.classes[k] + "”";
  };
  const cutName = (k) => short(own.steps[k]);
  let standing = own ? own.start.slice() : [0, 0];

  function stand(low, high) {
    standing = [low, high];
    for (const [id, k] of [["low", low], ["high", high]]) {
      const node = byId("cut-" + id);
      if (!node) continue;
      node.value = k;
      node.setAttribute("aria-valuetext", cutName(k));
      write("cut-" + id, cutName(k));
    }
  }

  function sentence(found, now) {
    const [negative, positive] = data.classes, [low, high] = standing;
    const saved = 1 - found.cost / found.best, best = quoted(found.rules.indexOf(found.best), now);
    let rule = "";
    if (own && !data.has_row_costs) {
      rule = "Decide “" + positive + "” from a probability of " + cutName(high) + " on";
      if (low < high) rule += ", “" + negative + "” below " + cutName(low) + ", and refer what is between";
      rule += ". ";
    } else if (own) {
      rule = "Decide “" + positive + "” from " + cutName(high) + " on, relative to each row's own threshold (.5). ";
    }
    let text = rule + "A decision costs " + short(found.cost) + " on average";
    if (Number.isFinite(saved)) {
      text += ", " + percent(Math.abs(saved)) + (saved >= 0 ? " less" : " more") + " than " + best + " (" + short(found.best) + ")";
    }
    if (K === 2) text += "; of " + many(now.cases) + " cases, " + many(found.looked) + " are to be looked at";
    return text + ".";
  }

  function tell(found, now, moved) {
    const [low, high] = moved ? between(now, found.sums) : [data.promise.low, data.promise.high];
    const saved = 1 - found.cost / found.best;
    write("cost", short(found.cost));
    write("low", short(low));
    write("high", short(high));
    write("saved", percent(saved));
    // green beyond the error only; a limit has another aim
    const kind = high < found.best ? "good" : saved < 0 && !data.limit ? "warn" : "";
    for (const node of all('b[data-out="saved"]')) node.className = kind;
    found.rules.forEach((cost, k) => {
      write("rule-" + k, short(cost));
      write("rule-name-" + k, quoted(k, now));
    });
    write("total", many(found.cost * now.cases));
    write("instead", many(found.best * now.cases));
    write("cases", many(now.cases));
    write("undecided", percent(found.undecided));
    write("refer", short(now.refer));
    found.table.forEach((row, k) => row.forEach((n, action) => write("cell-" + k + "-" + action, many(n))));
    write("sentence", sentence(found, now));
    if (K !== 2) return;
    for (const key of ["recall", "precision", "fpr", "alarms"]) write(key, percent(found[key]));
    write("base", percent(now.share));
    write("looked", many(found.looked));
    const over = found.looked > now.capacity * (1 + 1e-9);
    write("room", Number.isFinite(now.capacity)
      ? (over ? "more than the " : "within the ") + many(now.capacity) + " there is capacity for" : "no capacity was given");
    tellLimit(found);
  }

  function tellLimit(found) {
    if (!data.limit) return;
    const key = { max_fpr: "fpr", min_recall: "recall", min_precision: "precision" }[data.limit.kind];
    const kept = data.limit.kind === "max_fpr" ? found[key] <= data.limit.limit : found[key] >= data.limit.limit;
    write("limit", percent(found[key]));
    write("kept", kept ? "kept on these rows" : "not kept on these rows");
    for (const node of all('b[data-out="limit"]')) node.className = kept ? "good" : "warn";
  }

  // The cost at every step, zoomed on what is cheaper than the best rule without a model.
  function drawCost(found, now, best) {
    const node = byId("plot-cost"), [low, high] = standing;
    const logit = own.steps[0] > 0, curves = [];
    const along = (name, cuts) => curves.push({
      name: name, points: own.steps.map((at, k) => {
        const { cost, sums } = mean(cells(now, ...cuts(k + 1)));
        return [at, cost, ...between(now, sums)];
      }),
    });
    if (mayRefer) {
      along("high", (k) => [Math.min(low + 1, k), k]);
      along("low", (k) => [k, Math.max(high + 1, k)]);
    } else along("high", (k) => [k, k]);
    const flat = curves.flatMap((curve) => curve.points), costs = flat.map((p) => p[1]);
    const least = Math.min(...costs), least_high = Math.max(found.best, found.cost, least + 1e-12);
    const wide = found.cost - between(now, found.sums)[0];
    const top = Math.max(found.cost + 1.3 * wide,
      Math.min(Math.max(...costs, found.best), least_high + 0.25 * (least_high - least)));
    const near = flat.filter((p) => p[1] <= top).map((p) => p[0]);
    const marks = [own.steps[low], own.steps[high], ...best.map((k) => own.steps[k - 1])];
    const reach = [Math.min(...near, ...marks), Math.max(...near, ...marks)];
    const pad = logit ? 0 : 0.03 * (reach[1] - reach[0] || 1);
    const bottom = Math.max(0, Math.min(least - 0.35 * (top - least), found.cost - 1.3 * wide));
    const layers = [];
    if (data.binary.band) layers.push({ kind: "zone", from: data.binary.band[0], to: data.binary.band[1] });
    for (const { name, points } of curves) {
      layers.push({ kind: "band", points: points.map(([x, , from, to]) => [x, from, to]) });
      layers.push({ kind: "line", points: points, dash: name === "low" ? "6 4" : "" });
    }
    layers.push({ kind: "level", at: found.best, text: quoted(found.rules.indexOf(found.best), now) });
    for (const k of new Set(standing)) layers.push({ kind: "rule", at: own.steps[k], colour: "mark" });
    const cheapestCost = mean(cells(now, ...best)).cost;
    layers.push({ kind: "dots", colour: "good", size: 5, points: [...new Set(best)].map(
      (k) => [own.steps[k - 1], cheapestCost, "cheapest: " + cutName(k - 1)]) });
    plot(node, {
      x: { domain: [Math.max(reach[0] - pad, own.steps[0]), Math.min(reach[1] + pad, own.steps[last - 1])],
        title: data.has_row_costs ? "cut, relative to each row's own threshold (.5)" : "threshold", logit: logit },
      y: { domain: [bottom, top > bottom ? top : bottom + 1], title: "cost of a decision" },
      layers: layers,
    });
  }

  function drawRanking(found, now) {
    if (!data.binary || !byId("plot-roc")) return;
    const unit = (title) => ({ domain: [0, 1], title: title, percent: true });
    const curve = data.binary.curve, dot = (x, y) => ({ kind: "dots", colour: "mark", size: 6,
      points: Number.isFinite(x + y) ? [[x, y, "as set above"]] : [] });
    plot(byId("plot-roc"), { x: unit("false alarm rate"), y: unit("found (recall)"), layers: [
      { kind: "line", points: [[0, 0], [1, 1]], colour: "soft", dash: "4 4", thin: true },
      { kind: "line", points: curve.map((p) => [p.fpr, p.tpr]) }, dot(found.fpr, found.recall)] });
    const right = ({ tpr, fpr }) => (now.share * tpr) / (now.share * tpr + (1 - now.share) * fpr);
    plot(byId("plot-precision"), { x: unit("found (recall)"), y: unit("right among alarms (precision)"), layers: [
      { kind: "level", at: now.share, text: "base rate" },
      { kind: "line", points: curve.filter((p) => p.tpr + p.fpr > 0).map((p) => [p.tpr, right(p)]) },
      dot(found.recall, found.precision)] });
  }

  const FIELDS = all(".controls input[type=number]");
  const isMoved = () => FIELDS.some((node) => node.value !== node.defaultValue && node.id !== "capacity" && node.id !== "cases")
    || (own && (standing[0] !== own.start[0] || standing[1] !== own.start[1]));

  function refresh() {
    const now = settings(), how = byId("how");
    let best = null;
    if (own) {
      const cut = bayes(now);
      best = cheapest(now, Infinity);
      if (how.value === "costs" && cut.every(Number.isFinite)) stand(...cut.map(nearest));
      if (how.value === "cheapest") stand(...best.map((k) => k - 1));
      if (how.value === "capacity") stand(...cheapest(now, now.capacity).map((k) => k - 1));
      write("bayes", cut[0] === cut[1] ? short(cut[0]) : cut.map(short).join(" and "));
      write("cheapest", best[0] === best[1] ? cutName(best[0] - 1) : best.map((k) => cutName(k - 1)).join(" and "));
      write("cheapest-cost", short(mean(cells(now, ...best)).cost));
    }
    const found = outcome(now, standing[0] + 1, standing[1] + 1), moved = isMoved();
    tell(found, now, moved);
    for (const node of all(".as-trained")) node.hidden = !moved;
    if (own) drawCost(found, now, best);
    drawRanking(found, now);
    return [now, found];
  }

  // Charts that do not move.
  function drawOnce() {
    const chart = (name, spec) => { const node = byId("plot-" + name); if (node) plot(node, spec()); };
    chart("reliability", () => {
      const bins = data.binary.reliability, zone = data.gray_zone;
      const spread = (b) => WIDE * Math.sqrt((b.observed * (1 - b.observed)) / b.rows);
      const shown = [...bins.map((b) => b.predicted), ...bins.map((b) => b.observed + spread(b))];
      const top = Math.min(1, 1.1 * Math.max(...shown, 1e-6));
      return {
        x: { domain: [0, top], title: "probability", percent: true },
        y: { domain: [0, top], title: "observed share", percent: true },
        layers: [
          ...(zone && zone.low !== null ? [{ kind: "zone", from: zone.low, to: zone.high }] : []),
          { kind: "bars", points: bins.map((b) => [b.predicted, b.rows]) },
          { kind: "line", points: [[0, 0], [1, 1]], colour: "soft", dash: "4 4", thin: true },
          { kind: "dots", points: bins.map((b) => [b.predicted, b.observed,
            many(b.rows) + " rows: predicted " + percent(b.predicted) + ", observed " + percent(b.observed),
            b.observed - spread(b), b.observed + spread(b)]) },
        ],
      };
    });
    chart("risk", () => ({
      x: { domain: [0, 1], title: "share of rows decided", percent: true },
      y: { domain: [0, Math.max(...data.risk_coverage.map((p) => p.risk), 0.01)], title: "errors among them", percent: true },
      layers: [{ kind: "line", points: data.risk_coverage.map((p) => [p.coverage, p.risk]) }],
    }));
    chart("bound", () => ({
      x: { domain: [1, Math.max(data.bound_path.length, 2)], title: "basis functions" },
      y: { domain: [Math.min(...data.bound_path), Math.max(...data.bound_path) + 1e-9], title: "accuracy bound", percent: true },
      layers: [{ kind: "line", colour: "good", points: data.bound_path.map((b, k) => [k + 1, b]) }],
    }));
    data.effects.forEach((effect, k) => chart("effect-" + k, () => {
      const dated = effect.kind !== "number", at = effect.at.map((x, j) => (dated ? j : x)), end = at.length - 1;
      const ends = [...new Set([0, end])].map((j) => [j, String(effect.at[j]).slice(0, 10)]);
      return {
        x: { domain: [at[0], end ? at[end] : at[0] + 1], title: (effect.part || effect.column).slice(0, 40), ticks: dated ? ends : null },
        y: { domain: [0, Math.max(...effect.probability, 1e-6) * 1.1], title: "mean probability", percent: true },
        layers: [{ kind: "bars", points: at.map((x, j) => [x, effect.rows[j]]) },
          { kind: "line", points: at.map((x, j) => [x, effect.probability[j]]) }],
      };
    }));
  }

  // Export, from what the page holds: nothing leaves it.
  function download(name, type, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function numbers() {
    const [now, found] = refresh();
    const kept = Object.fromEntries(Object.entries(data).filter(([key]) => !["cells", "per_rule"].includes(key)));
    kept.binary = data.binary && Object.fromEntries(Object.entries(data.binary).filter(([key]) => !["sums", "steps", "start"].includes(key)));
    const cuts = own ? standing.map((k) => own.steps[k]) : null;
    return JSON.stringify({ as_trained: kept, now: { ...now, cuts: cuts, ...found } }, null, 2);
  }

  function thresholds() {
    const now = settings(), names = ["cost", "error", "recall", "fpr", "precision", "alarms"];
    const rows = own.steps.map((at, k) => {
      const found = outcome(now, k + 1, k + 1);
      return [at, ...names.map((name) => (Number.isFinite(found[name]) ? found[name] : ""))].join(",");
    });
    return ["threshold," + names.join(","), ...rows].join("\n") + "\n";
  }

  // A slider beside a field, even in the logarithm: of costs, or of odds.
  function slide(range, number) {
    const low = Number(range.dataset.low), high = Number(range.dataset.high), odds = range.dataset.scale === "odds";
    const linear = range.dataset.scale === "linear";
    const inner = (x) => (linear ? x : odds ? Math.log(x / (100 - x)) : Math.log(x));
    const outer = (z) => (linear ? z : odds ? 100 / (1 + Math.exp(-z)) : Math.exp(z));
    const follow = () => {
      const value = number.valueAsNumber, at = (inner(value) - inner(low)) / (inner(high) - inner(low));
      range.value = Number.isFinite(at) ? 1000 * at : value > 0 ? 1000 : 0;
      range.setAttribute("aria-valuetext", number.value || "none");
    };
    number.addEventListener("input", follow);
    range.addEventListener("input", () => {
      number.value = Number(outer(inner(low) + (range.value / 1000) * (inner(high) - inner(low))).toPrecision(3));
      range.setAttribute("aria-valuetext", number.value);
      number.dispatchEvent(new Event("change"));
    });
    follow();
    return follow;
  }

  function listen() {
    const follow = all("input[type=range][data-of]").map((range) => slide(range, byId(range.dataset.of)));
    for (const node of FIELDS) {
      for (const type of ["input", "change"]) {
        node.addEventListener(type, () => {
          if (node.id === "capacity" && own) byId("how").value = node.value === "" ? "hand" : "capacity";
          refresh();
        });
      }
    }
    if (own) {
      for (const id of ["low", "high"]) {
        const node = byId("cut-" + id);
        if (!node) continue;
        node.addEventListener("input", () => {
          const k = Number(node.value);
          byId("how").value = "hand";
          if (!byId("cut-low")) stand(k, k);
          else if (id === "low") stand(k, Math.max(k, standing[1]));
          else stand(Math.min(k, standing[0]), k);
          refresh();
        });
      }
      byId("how").addEventListener("change", refresh);
    }
    if (byId("reset")) {
      byId("reset").addEventListener("click", () => {
        for (const node of FIELDS) node.value = node.defaultValue;
        follow.forEach((one) => one());
        if (own) { byId("how").value = "hand"; stand(...own.start); }
        refresh();
      });
    }
    byId("save-json").addEventListener("click", () => download("numbers.json", "application/json", numbers()));
    if (own) byId("save-csv").addEventListener("click", () => download("thresholds.csv", "text/csv", thresholds()));
  }

  if (own) stand(...own.start);
  listen();
  refresh();
  drawOnce();
  document.documentElement.setAttribute("data-ready", "yes");
})();
