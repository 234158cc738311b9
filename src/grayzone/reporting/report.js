"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const own = data.binary;
  const rightNegative = data.costs[0][0], rightPositive = own ? data.costs[1][1] : 0;
  const views = {};
  const byId = (id) => document.getElementById(id);
  const write = (id, text) => { const node = byId(id); if (node) node.textContent = text; };
  const percent = (x) => (Number.isFinite(x) ? (100 * x).toFixed(1) + " %" : "–");
  const short = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(4))) : "–");

  // What the decisions at a step of the slider come to, at costs of misses and of false alarms.
  function outcome(step, costMiss, costAlarm) {
    const tp = own.tp[step], fp = own.fp[step], fn = own.positives - tp, tn = own.negatives - fp;
    const n = own.positives + own.negatives;
    return {
      threshold: own.steps[step], tp: tp, fp: fp, fn: fn, tn: tn,
      cost: (fn * costMiss + fp * costAlarm + tp * rightPositive + tn * rightNegative) / n,
      never: (own.positives * costMiss + own.negatives * rightNegative) / n,
      always: (own.negatives * costAlarm + own.positives * rightPositive) / n,
      recall: tp / own.positives, fpr: fp / own.negatives,
      precision: tp + fp ? tp / (tp + fp) : NaN, alarms: (tp + fp) / n,
    };
  }

  function best(costMiss, costAlarm) {
    let step = 0;
    for (let k = 1; k < own.steps.length; k++) {
      if (outcome(k, costMiss, costAlarm).cost < outcome(step, costMiss, costAlarm).cost) step = k;
    }
    return step;
  }

  function signals(name, values) {
    const view = views[name];
    if (!view) return;
    for (const key of Object.keys(values)) view.signal(key, values[key]);
    view.runAsync();
  }

  function refresh() {
    const slider = byId("threshold");
    const cost = (id, fallback) => {
      const value = byId(id).valueAsNumber;
      return Number.isFinite(value) && value >= 0 ? value : fallback;
    };
    const miss = cost("cost-miss", data.costs[1][0]);
    const alarm = cost("cost-alarm", data.costs[0][1]);
    const now = outcome(Number(slider.value), miss, alarm);
    slider.setAttribute("aria-valuetext", "threshold " + short(now.threshold));
    write("threshold-value", short(now.threshold));
    write("cost-value", short(now.cost));
    write("never-value", short(now.never));
    write("always-value", short(now.always));
    write("saved-value", percent(1 - now.cost / Math.min(now.never, now.always)));
    write("recall-value", percent(now.recall));
    write("precision-value", percent(now.precision));
    write("fpr-value", percent(now.fpr));
    write("alarms-value", percent(now.alarms));
    for (const key of ["tp", "fp", "fn", "tn"]) write(key + "-value", now[key].toLocaleString("en"));
    const stake = alarm - rightNegative;
    write("bayes-value", short(stake / (stake + miss - rightPositive)));
    write("best-value", short(own.steps[best(miss, alarm)]));
    signals("cost", { threshold: now.threshold, cost_fn: miss, cost_fp: alarm });
    const or = (x, fallback) => (Number.isFinite(x) ? x : fallback);
    signals("roc", { at_x: or(now.fpr, 0), at_y: or(now.recall, 0) });
    signals("precision", { at_x: or(now.recall, 0), at_y: or(now.precision, 1) });
  }

  async function draw() {
    const options = { renderer: "svg", actions: false, ast: true };
    for (const name of Object.keys(data.charts)) {
      const node = byId("chart-" + name);
      if (!node) continue;
      // Vega writes its own label over the node's, from the description
      const spec = Object.assign({ description: node.getAttribute("aria-label") }, data.charts[name]);
      const found = await vegaEmbed(node, spec, options);
      views[name] = found.view;
    }
    if (own) refresh();
    document.documentElement.setAttribute("data-ready", "yes");
  }

  if (own) {
    const controls = ["threshold", "cost-miss", "cost-alarm"];
    for (const id of controls) byId(id).addEventListener("input", refresh);
    byId("reset").addEventListener("click", function () {
      for (const id of controls) byId(id).value = byId(id).defaultValue;
      refresh();
    });
    refresh();
  }
  draw();
})();
