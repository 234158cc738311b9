"use strict";
// Small charts as SVG: axes, and layers that are given as numbers. Names are text, never markup.
const plot = (function () {
  const HEIGHT = 260, LEFT = 52, RIGHT = 14, TOP = 16, BOTTOM = 42;
  const SOME_ODDS = [1e-6, 1e-5, 1e-4, 1e-3, .003, .01, .03, .1, .3, .5, .7, .9, .97, .99, .999, .9999];
  const logit = (p) => Math.log(p / (1 - p));
  const short = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(4))) : "–");
  const rate = (x) => short(100 * x) + " %";
  let clips = 0;

  function ticksOf(axis, room, apart) {
    const [low, high] = axis.domain;
    if (axis.ticks) return axis.ticks;
    const write = axis.percent ? rate : short;
    if (axis.logit) {
      const inside = SOME_ODDS.filter((p) => p >= low && p <= high);
      const every = Math.ceil((inside.length * 44) / room);
      return inside.filter((_, k) => k % every === 0).map((p) => [p, write(p)]);
    }
    const rough = (high - low) / Math.max(2, Math.floor(room / apart));
    const unit = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = unit * [1, 2, 5, 10].find((k) => k * unit >= rough);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
      found.push([k * step, write(Number((k * step).toPrecision(10)))]);
    }
    return found;
  }

  function scaleOf(axis, from, to) {
    const inner = axis.logit ? (x) => logit(Math.min(Math.max(x, 1e-12), 1 - 1e-12)) : (x) => x;
    const low = inner(axis.domain[0]), wide = inner(axis.domain[1]) - low || 1;
    return (x) => from + ((inner(x) - low) / wide) * (to - from);
  }

  function element(parent, name, attributes, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key of Object.keys(attributes)) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return parent.appendChild(node);
  }

  function axes(svg, spec, x, y, width) {
    for (const [at, text] of ticksOf(spec.y, HEIGHT - TOP - BOTTOM, 36)) {
      element(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(at), y2: y(at) });
      element(svg, "text", { class: "tick", x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }, text);
    }
    for (const [at, text] of ticksOf(spec.x, width - LEFT - RIGHT, 60)) {
      const anchor = x(at) > width - RIGHT - 16 ? "end" : "middle";
      element(svg, "text", { class: "tick", x: x(at), y: HEIGHT - BOTTOM + 18, "text-anchor": anchor }, text);
    }
    element(svg, "text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, spec.x.title);
    element(svg, "text", { x: 0, y: 10 }, spec.y.title);
  }

  const path = (points) => points.map((p, k) => (k ? "L" : "M") + p[0].toFixed(2) + " " + p[1].toFixed(2)).join("");

  // One layer: {kind, ...}; `inside` is clipped to the axes, `over` holds what is written.
  function layer(inside, over, one, x, y, width) {
    const bottom = HEIGHT - BOTTOM, colour = "var(--" + (one.colour || "accent") + ")";
    if (one.kind === "zone") {
      const from = x(one.from);
      element(inside, "rect", { class: "zone", x: from, y: TOP, width: Math.max(x(one.to) - from, 1), height: bottom - TOP, fill: "var(--zone)" });
    } else if (one.kind === "band") {
      const up = one.points.map((p) => [x(p[0]), y(p[2])]);
      const down = one.points.map((p) => [x(p[0]), y(p[1])]).reverse();
      element(inside, "path", { class: "band", d: path(up.concat(down)) + "Z", fill: "var(--band)" });
    } else if (one.kind === "line") {
      element(inside, "path", {
        class: "line", d: path(one.points.map((p) => [x(p[0]), y(p[1])])), fill: "none",
        stroke: colour, "stroke-width": one.thin ? 1 : 2, "stroke-dasharray": one.dash || "none",
      });
    } else if (one.kind === "bars") {
      const most = Math.max(...one.points.map((p) => p[1])) || 1;
      for (const [at, rows] of one.points) {
        const tall = (rows / most) * 0.25 * (bottom - TOP);
        element(inside, "rect", { class: "count", x: x(at) - 4, y: bottom - tall, width: 8, height: tall, fill: "var(--line)" });
      }
    } else if (one.kind === "dots") {
      for (const p of one.points) {
        if (p.length > 3) element(inside, "line", { x1: x(p[0]), x2: x(p[0]), y1: y(p[3]), y2: y(p[4]), stroke: colour });
        const dot = element(inside, "circle", { class: "dot", cx: x(p[0]), cy: y(p[1]), r: one.size || 4, fill: colour });
        if (p[2]) element(dot, "title", {}, p[2]);
      }
    } else if (one.kind === "rule") {
      element(inside, "line", { class: "rule", x1: x(one.at), x2: x(one.at), y1: TOP, y2: bottom, stroke: colour, "stroke-width": 2 });
    } else if (one.kind === "level") {
      element(inside, "line", { class: "level", x1: LEFT, x2: width - RIGHT, y1: y(one.at), y2: y(one.at), stroke: "var(--soft)", "stroke-dasharray": "4 4" });
      if (one.text) element(over, "text", { class: "tick", x: width - RIGHT, y: y(one.at) - 4, "text-anchor": "end" }, one.text);
    }
  }

  function draw(node, spec) {
    const width = Math.max(node.clientWidth, 240), clip = "clip-" + ++clips;
    node.replaceChildren();
    const svg = element(node, "svg", { viewBox: "0 0 " + width + " " + HEIGHT, "aria-hidden": "true" });
    const x = scaleOf(spec.x, LEFT, width - RIGHT), y = scaleOf(spec.y, HEIGHT - BOTTOM, TOP);
    const area = element(element(svg, "defs", {}), "clipPath", { id: clip });
    element(area, "rect", { x: LEFT, y: TOP - 6, width: width - LEFT - RIGHT, height: HEIGHT - BOTTOM - TOP + 6 });
    axes(svg, spec, x, y, width);
    const inside = element(svg, "g", { "clip-path": "url(#" + clip + ")" });
    const over = element(svg, "g", {});
    for (const one of spec.layers) layer(inside, over, one, x, y, width);
  }

  const specs = new Map();
  const widths = new Map();
  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.clientWidth && target.clientWidth !== widths.get(target)) show(target, specs.get(target));
    }
  });

  function show(node, spec) {
    if (!specs.has(node)) watch.observe(node);
    specs.set(node, spec);
    widths.set(node, node.clientWidth);
    draw(node, spec);
  }
  return show;
})();
