"use strict";
(() => {
  const root = document.documentElement;
  // Marks for tests: what went wrong, what drew, what overflows.
  const marks = root.dataset;
  let errors = 0;
  const failed = () => { marks.errors = String(++errors); };
  marks.errors = "0";
  addEventListener("error", failed);
  addEventListener("unhandledrejection", failed);
  document.addEventListener("securitypolicyviolation", failed);

  const read = (element) => JSON.parse(element.textContent);
  const darkQuery = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const isDark = () => darkQuery.matches && !printing;
  // What a color variable of the page comes to: a canvas knows nothing of variables.
  const colorOf = (name) => {
    const probe = document.createElement("span");
    probe.style.cssText = `color-scheme: ${isDark() ? "dark" : "light"}; color: var(${name})`;
    document.body.append(probe);
    const color = getComputedStyle(probe).color;
    probe.remove();
    return color;
  };

  // ---- numbers, written as the tables write them ----
  const THIN = "\u202f";
  const minus = (text) => text.replace("-", "−");
  const significant = (value) => {
    const text = value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
    return text.replace(/\.0+$/, "");
  };
  const scaled = (value, base, limit, units) => {
    let rest = Math.abs(value), unit = 0;
    while (rest >= limit && unit + 1 < units.length) { rest /= base; unit++; }
    return (value < 0 ? "−" : "") + significant(rest) + (units[unit] && THIN + units[unit]);
  };
  const grouped = (value) => minus(Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, THIN));
  const seconds = (value) => {
    const size = Math.abs(value);
    if (size >= 59.95) {
      const whole = Math.round(size), h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60;
      const parts = h ? [[h, "h"], [m, "min"]] : [[m, "min"], [whole % 60, "s"]];
      const text = parts.filter(([n]) => n).map(([n, unit]) => n + THIN + unit).join(" ");
      return (value < 0 ? "−" : "") + text;
    }
    if (size >= 0.9995 || size === 0) return minus(significant(value)) + THIN + "s";
    return size >= 0.0009995 ? scaled(value * 1e3, 1000, 1e9, ["ms"]) : scaled(value * 1e6, 1000, 1e9, ["µs"]);
  };
  const write = {
    number: (v) => Math.abs(v) >= 1000 ? scaled(v, 1000, 999.5, ["", "k", "M", "G", "T"]) : minus(String(+v.toFixed(3))),
    count: grouped,
    bytes: (v) => scaled(v, 1024, 1023.5, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]),
    share: (v) => minus(String(+(v * 100).toFixed(2))) + THIN + "%",
    seconds,
  };
  const show = (unit, value) => value == null ? "–" : write[unit](value);
  // Round steps between ticks; of bare numbers and shares uPlot's own are right.
  const decades = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i))
    .flatMap((power) => [power, 2 * power, 5 * power]);
  const INCREMENTS = {
    bytes: Array.from({ length: 60 }, (_, i) => 2 ** i),
    count: decades(0, 15),
    seconds: [...decades(-9, 0), 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18000, 36000, 86400, ...decades(5, 8).map((h) => h * 3.6)],
  };

  // ---- charts ----
  const charts = [];

  const textWidth = (() => {
    const pen = document.createElement("canvas").getContext("2d");
    return (text) => { pen.font = FONT; return pen.measureText(text).width; };
  })();
  const FONT = "12.5px Inter, system-ui, sans-serif";

  // Readers who ask for contrast get wider lines and axes in the color of text.
  const contrastQuery = matchMedia("(prefers-contrast: more)");
  const wide = () => contrastQuery.matches ? 3.5 : 2;
  const quiet = () => colorOf(contrastQuery.matches ? "--ink" : "--muted");

  const axis = (spec, extra) => ({
    font: FONT, stroke: quiet(),
    grid: { stroke: colorOf("--line"), width: 1 }, ticks: { stroke: colorOf("--line"), width: 1, size: 5 },
    values: (u, splits) => splits.map((v) => v == null ? "" : show(spec.unit, v)),
    ...(INCREMENTS[spec.unit] && { incrs: INCREMENTS[spec.unit] }),
    ...extra,
  });
  const leftAxis = (spec) => axis(spec, {
    space: 42,
    size: (u, values) => 14 + Math.max(20, ...(values || []).map(textWidth)),
  });
  const verticalRange = (spec) => (u, low, high) => {
    if (spec.range) return spec.range;
    low = Math.min(0, low ?? 0); high = Math.max(low, high ?? 1);
    if (low === high) high = low + 1;
    return [low < 0 ? low - (high - low) * 0.05 : 0, high + (high - low) * 0.06];
  };

  const lineOptions = (data, color) => ({
    scales: {
      x: { time: false, ...(data.x.range ? { range: (u, a, b) => u.zoomed ? [a, b] : data.x.range } : {}) },
      y: { range: verticalRange(data.y) },
    },
    axes: [axis(data.x, { space: 80, size: 32 }), leftAxis(data.y)],
    series: [{}, ...data.series.map((name, i) => ({
      label: name, stroke: color(i), width: wide(), dash: data.dashes[i], points: { show: data.xs.length < 2 },
      ...(data.shape === "steps" ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
    }))],
    values: (u, index) => data.ys.map((ys) => ys[index]),
    place: (u, index) => `${data.x.label} ${show(data.x.unit, data.xs[index])}`.trim(),
  });

  // A group of bars per category: bar j of group i stands alone at its own position.
  const barPositions = (data) => {
    const bars = data.series.length, wide = bars > 1 ? 0.82 : 1;
    const xs = [], ys = data.series.map(() => []);
    data.categories.forEach((_, i) => {
      for (let bar = 0; bar < bars; bar++) {
        xs.push(i + ((bar + 0.5) / bars - 0.5) * wide);
        ys.forEach((values, j) => values.push(j === bar ? data.ys[j][i] ?? null : null));
      }
    });
    return [xs, ...ys];
  };
  const barOptions = (data, color) => ({
    scales: {
      x: { time: false, range: (u, a, b) => u.zoomed ? [a, b] : [-0.5, data.categories.length - 0.5] },
      y: { range: verticalRange(data.y) },
    },
    axes: [axis(data.x, {
      size: 32,
      grid: { show: false },
      splits: (u) => data.categories.map((_, i) => i).filter((i) => i >= u.scales.x.min && i <= u.scales.x.max),
      values: (u, splits) => {
        const room = (u.width - 90) / Math.max(1, splits.length);
        const longest = Math.max(...splits.map((i) => textWidth(data.categories[i]))) + 12;
        const every = Math.max(1, Math.ceil(longest / room));
        return splits.map((category, i) => i % every ? "" : data.categories[category]);
      },
    }), leftAxis(data.y)],
    series: [{}, ...data.series.map((name, i) => ({
      label: name, stroke: color(i), fill: color(i), width: 0, points: { show: false },
      paths: uPlot.paths.bars({ size: [data.series.length > 1 ? 0.92 : 0.78, 90], radius: 0.06 }),
    }))],
    values: (u, index) => data.ys.map((ys) => ys[Math.floor(index / data.series.length)]),
    place: (u, index) => `${data.x.label} ${data.categories[Math.floor(index / data.series.length)]}`.trim(),
  });

  // A piece of a line with its pattern, for the legend.
  const strokeOf = (dash) => {
    // Taken from an element: the page names no address, not even this one.
    const parsed = document.createElement("div");
    parsed.innerHTML = "<svg></svg>";
    const NS = parsed.firstChild.namespaceURI;
    const svg = document.createElementNS(NS, "svg"), path = document.createElementNS(NS, "path");
    svg.setAttribute("viewBox", "0 0 34 10");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", "M0 5h34");
    path.setAttribute("stroke-dasharray", dash.join(" "));
    svg.append(path);
    return svg;
  };

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.data = read(figure.querySelector("script"));
      this.plot = figure.querySelector(".plot");
      this.hidden = new Set();
      this.buildLegend();
      this.draw();
      new ResizeObserver(() => this.resize()).observe(this.plot);
      this.plot.addEventListener("keydown", (event) => this.key(event));
      figure.querySelector('[data-do="in"]').onclick = () => this.zoom(0.5);
      figure.querySelector('[data-do="whole"]').onclick = () => this.whole();
    }

    color(i) {
      const [light, dark] = this.data.colors[i];
      return isDark() ? dark : light;
    }

    buildLegend() {
      const legend = this.figure.querySelector(".legend");
      this.outputs = this.data.series.map((name, i) => {
        const button = document.createElement("button"), swatch = document.createElement("i"), output = document.createElement("output");
        button.type = "button";
        button.setAttribute("aria-pressed", "true");
        swatch.style.setProperty("--paint", `light-dark(${this.data.colors[i].join()})`);
        if (this.data.dashes) swatch.append(strokeOf(this.data.dashes[i]));
        button.append(swatch, name, output);
        button.onclick = () => this.toggle(i, button);
        legend.append(button);
        return output;
      });
      this.at = document.createElement("span");
      this.at.className = "at";
      legend.append(this.at);
    }

    toggle(i, button) {
      const shown = this.hidden.has(i);
      shown ? this.hidden.delete(i) : this.hidden.add(i);
      button.setAttribute("aria-pressed", String(shown));
      this.u.setSeries(i + 1, { show: shown });
    }

    get size() {
      const width = Math.max(200, this.plot.clientWidth);
      return { width, height: Math.round(Math.min(360, Math.max(230, width * 0.46))) };
    }

    draw() {
      this.u?.destroy();
      this.full = undefined;
      const data = this.data, bars = data.kind === "bars";
      this.options = (bars ? barOptions : lineOptions)(data, (i) => this.color(i));
      const { scales, axes, series } = this.options;
      series.slice(1).forEach((s, i) => { s.show = !this.hidden.has(i); });
      this.u = new uPlot({
        ...this.size, scales, axes, series, padding: [8, 26, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: true, y: false, dist: 6 }, points: { show: !bars, size: 8 }, y: false },
        hooks: {
          setCursor: [(u) => this.follow(u)],
          setSelect: [(u) => { u.zoomed = u.select.width > 0 || u.zoomed; }],
          setScale: [(u, key) => { if (key === "x") this.showZoom(u); }],
          ready: [(u) => { this.full = { min: u.scales.x.min, max: u.scales.x.max }; this.showZoom(u); }],
        },
      }, bars ? barPositions(data) : [data.xs, ...data.ys], this.plot);
      const over = this.u.over;
      over.addEventListener("dblclick", () => this.whole());
      // A finger reads values; the page still scrolls up and down.
      over.addEventListener("pointermove", (event) => {
        if (event.pointerType === "touch") this.u.setCursor({ left: event.clientX - over.getBoundingClientRect().left, top: 10 });
      });
    }

    resize() {
      const { width, height } = this.size;
      if (width !== this.u.width || height !== this.u.height) this.u.setSize({ width, height });
    }

    follow(u) {
      const index = u.cursor.idx;
      const values = index == null ? [] : this.options.values(u, index);
      this.outputs.forEach((output, i) => { output.textContent = index == null ? "" : show(this.data.y.unit, values[i]); });
      this.at.textContent = index == null ? "" : this.options.place(u, index);
    }

    showZoom(u) {
      const { min, max } = u.scales.x;
      const whole = !this.full || (min <= this.full.min && max >= this.full.max);
      this.figure.querySelector('[data-do="whole"]').disabled = whole;
    }

    zoom(factor) {
      const { min, max } = this.u.scales.x;
      const middle = this.u.cursor.left >= 0 ? this.u.posToVal(this.u.cursor.left, "x") : (min + max) / 2;
      const low = middle - (middle - min) * factor, high = low + (max - min) * factor;
      if (low <= this.full.min && high >= this.full.max) return this.whole();
      this.u.zoomed = true;
      this.u.setScale("x", { min: low, max: high });
    }

    whole() {
      this.u.zoomed = false;
      this.u.setScale("x", this.full);
    }

    key(event) {
      const u = this.u, steps = { ArrowLeft: -1, ArrowRight: 1 };
      if (event.key in steps) {
        const last = u.data[0].length - 1;
        const index = Math.min(last, Math.max(0, (u.cursor.idx ?? (steps[event.key] > 0 ? -1 : last + 1)) + steps[event.key]));
        u.setCursor({ left: u.valToPos(u.data[0][index], "x"), top: 10 });
      } else if (event.key === "+" || event.key === "=") this.zoom(0.5);
      else if (event.key === "-") this.zoom(2);
      else if (event.key === "Escape" || event.key === "Home") this.whole();
      else return;
      event.preventDefault();
    }

    // Whether every series that has a value left its color on the canvas.
    isDrawn() {
      const canvas = this.u.ctx.canvas;
      const pixels = this.u.ctx.getImageData(0, 0, canvas.width, canvas.height).data;
      return this.data.series.every((_, i) => {
        if (!this.data.ys[i].some((y) => y != null)) return true;
        const [r, g, b] = [1, 3, 5].map((at) => parseInt(this.color(i).slice(at, at + 2), 16));
        for (let p = 0; p < pixels.length; p += 4) {
          if (pixels[p + 3] > 200 && Math.abs(pixels[p] - r) + Math.abs(pixels[p + 1] - g) + Math.abs(pixels[p + 2] - b) < 24) return true;
        }
        return false;
      });
    }
  }

  const redraw = () => charts.forEach((chart) => chart.draw());
  darkQuery.addEventListener("change", redraw);
  contrastQuery.addEventListener("change", redraw);
  addEventListener("beforeprint", () => { printing = true; redraw(); });
  addEventListener("afterprint", () => { printing = false; redraw(); });

  // ---- maps: which frames are under the pointer ----
  const tip = document.getElementById("tip");
  const MOVES = [[1, 0], [0, 1], [-1, 0], [0, -1]];

  // Undoes the two-bit steps into: for each place, the number of its cell.
  const cellsOf = (map) => {
    const bytes = Uint8Array.from(atob(map.moves), (c) => c.charCodeAt(0));
    const cells = new Map();
    let x = 0, y = 0;
    for (let cell = 0; cell < map.cells; cell++) {
      cells.set(y * map.columns + x, cell);
      const [dx, dy] = MOVES[(bytes[cell >> 2] >> (cell % 4 * 2)) & 3];
      x += dx; y += dy;
    }
    return cells;
  };
  const frameOf = (map, cell) => {
    for (const [start, cells] of map.segments) {
      if (cell < cells) return start + cell * map.frames;
      cell -= cells;
    }
  };
  const watchMap = (svg) => {
    const map = read(svg.nextElementSibling);
    let cells;
    svg.addEventListener("pointermove", (event) => {
      cells ??= cellsOf(map);
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = Math.floor((event.clientX - box.left) * scale / map.size);
      const y = Math.floor(((event.clientY - box.top) * scale - map.top) / map.size);
      const cell = x >= 0 && x < map.columns && y >= 0 ? cells.get(y * map.columns + x) : undefined;
      tip.hidden = cell === undefined;
      if (tip.hidden) return;
      const first = frameOf(map, cell), last = first + map.frames - 1;
      const zone = map.zones.findLast(([, start, end]) => first >= start && first < end);
      const kind = map.classes[event.target.dataset.c];
      tip.textContent = [kind, zone?.[0], `frames 0x${first.toString(16)} to 0x${last.toString(16)}`].filter(Boolean).join("\n");
      const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
      const below = event.clientY + 18;
      tip.style.left = `${Math.max(8, left)}px`;
      tip.style.top = `${below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : below}px`;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  };

  // ---- contents: where the reader is; closed at first where it would fill a small screen ----
  const watchContents = () => {
    const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
    const inView = new Set();
    const observer = new IntersectionObserver((entries) => {
      entries.forEach((e) => e.isIntersecting ? inView.add(e.target.id) : inView.delete(e.target.id));
      const current = [...links.keys()].find((id) => inView.has(id));
      links.forEach((a, id) => id === current ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current"));
    }, { rootMargin: "-10% 0px -60% 0px" });
    links.forEach((_, id) => { const section = document.getElementById(id); if (section) observer.observe(section); });
    const wide = matchMedia("(min-width: 68rem)");
    const fit = () => { const details = document.querySelector("nav details"); if (details) details.open = wide.matches; };
    wide.addEventListener("change", fit);
    fit();
  };

  // ---- tables and maps that are wider than the window say so ----
  const watchWidths = () => {
    const fit = (box) => {
      const hidden = box.scrollWidth - box.clientWidth;
      box.classList.toggle("wide", hidden > 1);
      box.classList.toggle("more", hidden > 1 && box.scrollLeft < hidden - 1);
      const hint = box.nextElementSibling;
      if (hint?.matches(".hint")) hint.hidden = hidden <= 1;
    };
    const observer = new ResizeObserver((entries) => entries.forEach((entry) => fit(entry.target)));
    document.querySelectorAll(".scroll").forEach((box) => {
      observer.observe(box);
      box.addEventListener("scroll", () => fit(box), { passive: true });
      fit(box);
    });
  };

  const mark = () => {
    marks.wide = String(document.querySelectorAll(".scroll.wide").length);
    marks.hints = String(document.querySelectorAll(".hint:not([hidden])").length);
    const drawn = charts.filter((chart) => chart.isDrawn()).length;
    marks.charts = `${drawn}/${document.querySelectorAll(".chart").length}`;
    marks.maps = String(document.querySelectorAll(".map").length);
    marks.fetched = String(performance.getEntriesByType("resource").length);
    marks.width = `${root.scrollWidth}/${root.clientWidth}`;
    marks.scheme = isDark() ? "dark" : "light";
  };

  document.querySelectorAll(".chart").forEach((figure) => charts.push(new Chart(figure)));
  document.querySelectorAll(".map").forEach(watchMap);
  watchContents();
  watchWidths();
  // Axis labels are drawn with the page's own font, which the browser may only now make ready.
  document.fonts.load(FONT).then(redraw).finally(() => requestAnimationFrame(() => setTimeout(mark)));
})();
