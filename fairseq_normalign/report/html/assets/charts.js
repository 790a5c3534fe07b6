// Tables, curves and heat maps.

const PAINTERS = {
  heading: (block) => html("h3", { class: "source", dir: "auto" }, block.text, block.note ? html("span", { class: "note" }, block.note) : null),
  note: (block) => html("p", { class: block.urgent ? "note urgent" : "note" }, block.text),
  facts: drawFacts,
  table: drawTable,
  curves: drawCurves,
  grid: drawGrid,
  row: (block) => html("div", { class: "row" }, block.blocks.map(drawBlock)),
  choice: drawChoice,
};

function drawBlock(block) {
  return PAINTERS[block.type](block);
}

function drawFacts(block) {
  const list = html("dl", { class: "facts" });
  for (const [name, value] of block.items) {
    list.append(html("dt", { dir: "auto" }, name), html("dd", { dir: "auto" }, value));
  }
  return html("div", {}, block.title ? html("h3", { dir: "auto" }, block.title) : null, list);
}

function drawChoice(block) {
  const place = html("div", { class: "chosen" });
  const choose = (number) => place.replaceChildren(...block.options[number].blocks.map(drawBlock));
  choose(block.opening);
  const names = block.options.map((option) => option.name);
  return html("div", { class: "choice" }, menu(block.label, names, block.opening, choose), place);
}

// A click on a heading sorts by that column, a second click the other way round.
function drawTable(block) {
  const body = html("tbody");
  let rows = block.rows;
  let sorted = null;
  // Counts have no decimals; other columns have them in every row.
  const decimals = block.columns.map((_, place) => block.rows.every((row) => typeof row[place] !== "number" || Number.isInteger(row[place])) ? 0 : block.decimals);
  const cellOf = (cell, place) => typeof cell === "number"
    ? html("td", { class: "number" }, fixed(cell, decimals[place]))
    : html("td", { dir: "auto", class: cell !== null && cell.length > 60 ? "long" : null }, cell === null ? "–" : cell);
  const fill = () => body.replaceChildren(...rows.map((row) => html("tr", {}, row.map(cellOf))));
  const headings = block.columns.map((name, place) => {
    const numeric = block.rows.some((row) => typeof row[place] === "number");
    const heading = html("th", { scope: "col", class: numeric ? "number" : null });
    heading.append(html("button", { type: "button", onclick: () => sortBy(place) }, name || "name"));
    return heading;
  });
  function sortBy(place) {
    const up = sorted !== place;
    sorted = up ? place : null;
    const order = (a, b) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    };
    rows = [...block.rows].sort((a, b) => (up ? 1 : -1) * order(a[place], b[place]));
    headings.forEach((heading, number) => {
      if (number === place) heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    });
    fill();
  }
  fill();
  const table = html("table", {}, html("thead", {}, html("tr", {}, headings)), body);
  const caption = block.title ? html("h3", { dir: "auto" }, block.title) : null;
  return html("div", { class: "tabular" }, caption, html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": block.title || "table" }, table));
}

// ---- Heat maps -------------------------------------------------------------------------------

const LONGEST_LABEL = 22;

function labelRoom(names, letter) {
  const widest = Math.max(1, ...names.map((name) => letterWidth(shortened(name, LONGEST_LABEL))));
  return widest * letter + 8;
}

// Letters of Chinese, Japanese and Korean are twice as wide.
function letterWidth(text) {
  let width = 0;
  for (const letter of text) width += /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60]|[\u{1f300}-\u{1faff}]|[\u{20000}-\u{3fffd}]/u.test(letter) ? 1.75 : 1;
  return width;
}

// A heat map that mouse and arrow keys can read.
//   strength(row, column): 0 to 1, or null where there is nothing.
//   describe(row, column): what is told of a cell.
//   extras(row, column, box): more to draw in a cell.
//   moved(row, column): called when a cell is looked at, with nulls when none is.
function heatMap(map) {
  const { rows, columns, width, height } = map;
  const letter = map.letter || 6.4;
  const turned = columns.some((name) => letterWidth(name) * letter > width - 2);
  const left = labelRoom(rows, letter) + 16;
  const above = 4;
  const below = (turned ? labelRoom(columns, letter) : 16) + 18;
  const across = columns.length * width, down = rows.length * height;
  const picture = svg("svg", { class: "map", width: left + across + 4, height: above + down + below, viewBox: `0 0 ${left + across + 4} ${above + down + below}`, "aria-hidden": "true" });
  const cells = svg("g", {});
  for (let row = 0; row < rows.length; row++) {
    for (let column = 0; column < columns.length; column++) {
      const strength = map.strength(row, column);
      const box = { x: left + column * width, y: above + row * height, width, height };
      if (strength === null) cells.append(svg("rect", { ...box, class: "nothing" }));
      else if (strength > 0) cells.append(svg("rect", { ...box, class: "heat", "fill-opacity": strength.toFixed(3) }));
      const more = map.extras ? map.extras(row, column, box) : null;
      if (more) cells.append(...more);
    }
  }
  picture.append(cells, ...gridLines(left, above, across, down, width, height));
  rows.forEach((name, row) => picture.append(label(name, left - 5, above + (row + 0.5) * height + 4, "end")));
  columns.forEach((name, column) => {
    const x = left + (column + 0.5) * width;
    const text = turned ? label(name, 0, 0, "end") : label(name, x, above + down + 14, "middle");
    if (turned) text.setAttribute("transform", `translate(${x + 4} ${above + down + 6}) rotate(-90)`);
    picture.append(text);
  });
  picture.append(svg("text", { x: left + across / 2, y: above + down + below - 4, "text-anchor": "middle", class: "axis" }, map.columnTitle));
  picture.append(svg("text", { transform: `translate(11 ${above + down / 2}) rotate(-90)`, "text-anchor": "middle", class: "axis" }, map.rowTitle));
  const cursor = svg("rect", { class: "cursor", width, height, visibility: "hidden" });
  picture.append(cursor);
  return readable(map, picture, cursor, { left, above, width, height });
}

function gridLines(left, above, across, down, width, height) {
  let path = "";
  for (let x = 0; x <= across + 0.1; x += width) path += `M${left + x} ${above}v${down}`;
  for (let y = 0; y <= down + 0.1; y += height) path += `M${left} ${above + y}h${across}`;
  return [svg("path", { d: path, class: "grid" })];
}

function label(text, x, y, anchor) {
  return svg("text", { x, y, "text-anchor": anchor, class: "label" }, svg("title", {}, text), shortened(text, LONGEST_LABEL));
}

function readable(map, picture, cursor, place) {
  const frame = html("div", { class: "scroll mapped", tabindex: "0", role: "application", "aria-roledescription": "heat map", "aria-label": `${map.title}. Arrow keys move from cell to cell.` }, picture);
  let at = null;
  const look = (row, column, tell) => {
    at = [row, column];
    cursor.setAttribute("x", place.left + column * place.width);
    cursor.setAttribute("y", place.above + row * place.height);
    cursor.setAttribute("visibility", "visible");
    if (map.moved) map.moved(row, column);
    tell(map.describe(row, column));
  };
  const leave = () => {
    cursor.setAttribute("visibility", "hidden");
    if (map.moved) map.moved(null, null);
    tip.hide();
  };
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - place.left) / place.width);
    const row = Math.floor((event.clientY - box.top - place.above) / place.height);
    if (row < 0 || column < 0 || row >= map.rows.length || column >= map.columns.length) leave();
    else look(row, column, (text) => tip.show(text, event.clientX, event.clientY));
  });
  picture.addEventListener("pointerleave", leave);
  frame.addEventListener("blur", leave);
  frame.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -1e6], End: [0, 1e6] };
    if (event.key === "Escape") leave();
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [down, right] = at ? moves[event.key] : [0, 0];
    const bounded = (number, length) => Math.min(Math.max(number, 0), length - 1);
    const row = bounded((at ? at[0] : 0) + down, map.rows.length);
    const column = bounded((at ? at[1] : 0) + right, map.columns.length);
    look(row, column, (text) => tip.beside(cursor, text));
  });
  return frame;
}

// The scale of the colours.
function scale(low, high, title) {
  return html("div", { class: "scale", "aria-hidden": "true" }, html("span", {}, low), html("span", { class: "bar" }), html("span", {}, high), html("span", { class: "axis" }, title));
}

function drawGrid(block) {
  const numbers = block.values.flat().filter((value) => value !== null);
  const [low, high] = ends(numbers);
  const span = high > low ? high - low : 1;
  const strengthOf = (value) => 0.06 + 0.94 * (value - low) / span;
  const withUnit = (value) => shown(value, block.decimals) + (block.unit && value !== null ? ` ${block.unit}` : "");
  const describe = (row, column) => {
    const parts = [`${block.title}: ${block.row_title} ${block.rows[row]}, ${block.column_title} ${block.columns[column]}: ${withUnit(block.values[row][column])}`];
    if (block.notes.length && block.notes[row][column]) parts.push(block.notes[row][column]);
    return parts.join("; ");
  };
  const inCell = (row, column, box) => {
    const value = block.values[row][column];
    const strong = value !== null && strengthOf(value) > 0.55 ? " strong" : "";
    const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 + 4, "text-anchor": "middle" };
    if (block.numbers) return [svg("text", { ...middle, class: `cell${strong}` }, shown(value, block.decimals))];
    const mark = block.marks.length ? block.marks[row][column] : "";
    return mark ? [svg("text", { ...middle, class: `cell role${strong}` }, mark)] : null;
  };
  const frame = heatMap({
    title: block.title,
    rows: block.rows,
    columns: block.columns,
    rowTitle: block.row_title,
    columnTitle: block.column_title,
    width: block.numbers ? 52 : Math.max(30, Math.min(50, 240 / block.columns.length)),
    height: 26,
    strength: (row, column) => block.values[row][column] === null ? null : strengthOf(block.values[row][column]),
    describe,
    extras: inCell,
  });
  const table = () => drawTable({
    columns: [block.row_title, ...block.columns.map((name) => `${block.column_title} ${name}`)],
    rows: block.rows.map((name, row) => [name, ...block.values[row].map((value, column) => {
      const mark = block.marks.length ? block.marks[row][column] : "";
      return mark ? `${shown(value, block.decimals)} ${mark}` : value;
    })]),
    title: "",
    decimals: block.decimals,
  });
  const colours = numbers.length ? scale(withUnit(low), withUnit(high), "") : null;
  return html("figure", {}, html("figcaption", { dir: "auto" }, block.title), frame, colours, asTable(table));
}

// ---- Curves ----------------------------------------------------------------------------------

const CHART = { width: 430, height: 270, left: 52, right: 14, above: 12, below: 42 };
const COLOURS = 8;
const MOST_NAMED = 16;

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const marks = [];
  for (let place = Math.ceil(low / step); place * step <= high + step * 1e-9; place++) marks.push(place * step);
  return { marks, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function axesOf(block) {
  const points = block.curves.flatMap((curve) => curve.points);
  const isNamed = points.length > 0 && typeof points[0].x === "string";
  const names = [...new Set(points.map((point) => String(point.x)))];
  const xOf = (point) => isNamed ? names.indexOf(String(point.x)) : point.x;
  const xs = isNamed ? names.map((_, place) => place) : points.map((point) => point.x);
  const ys = points.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]);
  let [bottom, top] = ends(ys);
  const margin = (top - bottom || Math.abs(top) || 1) * 0.06;
  if (block.zero) bottom = Math.min(0, bottom);
  else bottom -= margin;
  top += margin;
  let [first, last] = ends(xs);
  const padding = isNamed ? 0.35 : (last - first || 1) * 0.04;
  first -= padding;
  last += padding;
  const { width, height, left, right, above, below } = CHART;
  return {
    isNamed, names, xOf, bottom, top, first, last,
    across: (x) => left + (x - first) / (last - first) * (width - left - right),
    up: (y) => height - below - (y - bottom) / (top - bottom) * (height - above - below),
  };
}

function drawCurves(block) {
  if (!block.curves.some((curve) => curve.points.length)) return html("p", { class: "note" }, `${block.title}: nothing was measured.`);
  const axes = axesOf(block);
  const { width, height } = CHART;
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  picture.append(...drawnAxes(block, axes));
  const groups = block.curves.map((curve, number) => drawnCurve(curve, number, axes));
  picture.append(...groups);
  const frame = html("div", { class: "charted", tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": `${block.title}. Left and right move along a curve, up and down between curves.` }, picture);
  followPoints(block, axes, picture, frame, groups);
  const mark = block.mark && block.curves.some((curve) => curve.points.some((point) => point.marked));
  const table = () => drawTable(curvesAsTable(block, axes));
  return html("figure", { class: "wide" }, html("figcaption", { dir: "auto" }, block.title), frame, legend(block, groups), mark ? html("p", { class: "note" }, `◎ ${block.mark}`) : null, asTable(table));
}

function drawnAxes(block, axes) {
  const { width, height, left, right, above, below } = CHART;
  const parts = [];
  const vertical = ticks(axes.bottom, axes.top, 5);
  for (const y of vertical.marks) {
    parts.push(svg("line", { x1: left, x2: width - right, y1: axes.up(y), y2: axes.up(y), class: "grid" }));
    parts.push(svg("text", { x: left - 6, y: axes.up(y) + 4, "text-anchor": "end", class: "label" }, y.toFixed(vertical.decimals)));
  }
  const horizontal = axes.isNamed
    ? axes.names.map((name, place) => [place, name])
    : wholeTicks(block, axes).map((x) => [x, fixed(x, 0)]);
  for (const [x, name] of horizontal) {
    parts.push(svg("text", { x: axes.across(x), y: height - below + 16, "text-anchor": "middle", class: "label" }, shortened(name, 10)));
  }
  parts.push(svg("line", { x1: left, x2: width - right, y1: height - below, y2: height - below, class: "frame" }));
  parts.push(svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", class: "axis" }, block.x_title));
  parts.push(svg("text", { transform: `translate(12 ${(above + height - below) / 2}) rotate(-90)`, "text-anchor": "middle", class: "axis" }, shortened(block.y_title, 44)));
  return parts;
}

// Layers, heads and updates are whole numbers.
function wholeTicks(block, axes) {
  const marks = ticks(axes.first, axes.last, 7).marks;
  const whole = marks.filter((x) => Number.isInteger(Number(x.toFixed(9))));
  return whole.length ? whole.map(Math.round) : marks;
}

function drawnCurve(curve, number, axes) {
  const group = svg("g", { class: `curve c${number % COLOURS}${curve.dashed ? " dashed" : ""}` });
  const places = curve.points.map((point) => [axes.across(axes.xOf(point)), axes.up(point.y)]);
  if (places.length > 1) group.append(svg("path", { d: "M" + places.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L"), class: "line" }));
  curve.points.forEach((point, place) => {
    const [x, y] = places[place];
    if (point.low !== null && point.high !== null) {
      const low = axes.up(point.low), high = axes.up(point.high);
      group.append(svg("path", { d: `M${x} ${low}V${high}M${x - 3} ${low}h6M${x - 3} ${high}h6`, class: "interval" }));
    }
    if (point.marked) group.append(svg("circle", { cx: x, cy: y, r: 7, class: "ring" }));
    group.append(svg("circle", { cx: x, cy: y, r: curve.points.length > 40 ? 1.5 : 3, class: "dot" }));
  });
  return group;
}

function legend(block, groups) {
  if (block.curves.length < 2) return null;
  if (block.curves.length > MOST_NAMED) return html("p", { class: "note" }, `${block.curves.length} lines; each is named where the mouse is.`);
  const list = html("ul", { class: "legend" });
  block.curves.forEach((curve, number) => {
    const swatch = svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, svg("g", { class: `curve c${number % COLOURS}${curve.dashed ? " dashed" : ""}` }, svg("path", { d: "M1 5h24", class: "line" })));
    const button = html("button", { type: "button", "aria-pressed": "false" }, swatch, html("span", { dir: "auto" }, curve.name));
    const only = () => highlight(groups, button.getAttribute("aria-pressed") === "true" ? number : null);
    button.addEventListener("click", () => {
      const isOn = button.getAttribute("aria-pressed") === "true";
      list.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", "false"));
      button.setAttribute("aria-pressed", String(!isOn));
      only();
    });
    button.addEventListener("pointerenter", () => highlight(groups, number));
    button.addEventListener("pointerleave", () => {
      const pressed = [...list.querySelectorAll("button")].findIndex((other) => other.getAttribute("aria-pressed") === "true");
      highlight(groups, pressed < 0 ? null : pressed);
    });
    list.append(html("li", {}, button));
  });
  return list;
}

function highlight(groups, number) {
  groups.forEach((group, place) => group.classList.toggle("faint", number !== null && place !== number));
}

function describePoint(block, curve, point) {
  const interval = point.low !== null && point.high !== null ? ` (${shown(point.low, block.decimals)} to ${shown(point.high, block.decimals)})` : "";
  const note = [point.note, point.marked ? block.mark : ""].filter(Boolean).join(", ");
  return `${curve.name}: ${block.x_title} ${shown(point.x, block.decimals)}: ${shown(point.y, block.decimals)}${interval}${note ? `; ${note}` : ""}`;
}

// The point that is nearest to the mouse, or that arrow keys have reached, is told.
function followPoints(block, axes, picture, frame, groups) {
  const known = [];
  block.curves.forEach((curve, number) => curve.points.forEach((point, place) => known.push({ number, place, curve, point, x: axes.across(axes.xOf(point)), y: axes.up(point.y) })));
  const ring = svg("circle", { r: 6, class: "cursor", visibility: "hidden" });
  picture.append(ring);
  const look = (near, tell) => {
    ring.setAttribute("cx", near.x);
    ring.setAttribute("cy", near.y);
    ring.setAttribute("visibility", "visible");
    highlight(groups, groups.length > 1 ? near.number : null);
    tell(describePoint(block, near.curve, near.point));
  };
  const leave = () => {
    ring.setAttribute("visibility", "hidden");
    highlight(groups, null);
    tip.hide();
  };
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const x = (event.clientX - box.left) * CHART.width / box.width, y = (event.clientY - box.top) * CHART.height / box.height;
    const distance = (one) => Math.hypot(one.x - x, one.y - y);
    const near = known.reduce((best, one) => distance(one) < distance(best) ? one : best);
    if (distance(near) < 40) look(near, (text) => tip.show(text, event.clientX, event.clientY));
    else leave();
  });
  picture.addEventListener("pointerleave", leave);
  frame.addEventListener("blur", leave);
  let at = null;
  frame.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key === "Escape") leave();
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [other, along] = at ? moves[event.key] : [0, 0];
    const from = at || known[0];
    const filled = block.curves.map((curve, number) => number).filter((number) => block.curves[number].points.length);
    const next = filled[(filled.indexOf(from.number) + other + filled.length) % filled.length];
    const place = Math.min(Math.max(from.place + along, 0), block.curves[next].points.length - 1);
    at = known.find((one) => one.number === next && one.place === place);
    look(at, (text) => tip.beside(ring, text));
  });
}

function curvesAsTable(block, axes) {
  const xs = [...new Set(block.curves.flatMap((curve) => curve.points.map((point) => point.x)))];
  if (!axes.isNamed) xs.sort((a, b) => a - b);
  const rows = xs.map((x) => [x, ...block.curves.map((curve) => {
    const point = curve.points.find((one) => one.x === x);
    if (!point) return null;
    return point.low === null ? point.y : `${shown(point.y, block.decimals)} (${shown(point.low, block.decimals)} to ${shown(point.high, block.decimals)})`;
  })]);
  return { columns: [block.x_title, ...block.curves.map((curve) => curve.name)], rows, title: "", decimals: block.decimals };
}
