// Tables, curves and heat maps.

const PAINTERS = {
  heading: drawHeading,
  note: (block) => html("p", { class: block.urgent ? "note urgent" : "note" }, block.text),
  facts: drawFacts,
  table: (block) => block.hidden ? document.createDocumentFragment() : drawTable(block),
  clouds: drawClouds,
  curves: drawCurves,
  grid: drawGrid,
  row: (block) => html("div", { class: "row" }, block.blocks.map(drawBlock)),
  choice: drawChoice,
};

function drawBlock(block) {
  return PAINTERS[block.type](block);
}

function drawHeading(block) {
  return html("h3", { class: "source", dir: "auto" }, block.text);
}

function drawFacts(block) {
  const list = html("dl", { class: "facts" });
  for (const [name, value] of block.items) {
    list.append(html("dt", { dir: "auto" }, name), html("dd", { dir: "auto" }, value));
  }
  return html("div", {}, block.title ? html("h3", { dir: "auto" }, block.title) : null, list);
}

const MOST_PRINTED = 6; // groups that a choice prints; of more, the chosen one alone
const printers = new WeakMap(); // what a choice does before it is printed, and after

function drawChoice(block) {
  let chosen = block.listed.length ? block.listed[0] : 0;
  const place = html("div", { class: "chosen" });
  const printed = html("div", { class: "printed" });
  const choose = (number) => {
    chosen = number;
    place.replaceChildren(...block.options[number].blocks.map(drawBlock));
  };
  choose(chosen);
  const names = block.options.map((option) => option.name);
  const node = html("div", { class: "choice" }, menu(block.label, names, chosen, choose), place, printed);
  printers.set(node, (isOn) => {
    place.hidden = isOn;
    printed.replaceChildren(...isOn ? printedOptions(block, chosen) : []);
  });
  return node;
}

// Every group under its name; if there are too many, the chosen one and the names of the others.
function printedOptions(block, chosen) {
  const isAll = groupsOf(block) <= MOST_PRINTED;
  const nodes = [];
  block.options.forEach((option, number) => {
    if (!isAll && number !== chosen) return;
    const body = html("div", {}, option.blocks.map(drawBlock));
    for (const choice of body.querySelectorAll(".choice")) printers.get(choice)(true);
    nodes.push(html("h4", { dir: "auto" }, `${block.label}: ${option.name}`), body);
  });
  const others = block.options.filter((_, number) => number !== chosen).map((option) => option.name);
  if (!isAll) nodes.push(html("p", { class: "note" }, `Not printed: ${others.join(", ")}.`));
  return nodes;
}

// How many groups a choice leads to, those of choices inside it counted.
function groupsOf(block) {
  if (block.type !== "choice") return block.blocks ? Math.max(1, ...block.blocks.map(groupsOf)) : 1;
  return block.options.reduce((sum, option) => sum + Math.max(1, ...option.blocks.map(groupsOf)), 0);
}

function printChoices(isOn) {
  for (const choice of document.querySelectorAll(".choice")) printers.get(choice)(isOn);
}

const LONG_TABLE = 30; // rows; longer ones scroll
const MANY_COLUMNS = 9; // more have small letters on paper
const LONG_CELL = 60; // letters

// A signature, which may go on in the next line after any of its parts.
function breakable(text) {
  const parts = text.split("|");
  return parts.flatMap((part, place) => place + 1 < parts.length ? [`${part}|`, html("wbr")] : [part]);
}

// Numbers by their value, names as people sort them: a 9 before a 10.
function inOrder(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// A click on a heading sorts by that column, a second click the other way round.
function drawTable(block) {
  const body = html("tbody");
  let rows = block.rows;
  let sorted = null;
  // Counts have no decimals; other columns have them in every row.
  const decimals = block.columns.map((_, place) => decimalsOf(block.rows.map((row) => row[place]), Array.isArray(block.decimals) ? block.decimals[place] : block.decimals));
  const numeric = block.columns.map((_, place) => block.rows.some((row) => typeof row[place] === "number"));
  const withDeviation = (cell, place, row) => {
    const deviation = block.deviations?.length ? block.deviations[block.rows.indexOf(row)][place] : null;
    return deviation === null ? cell : `${cell} ±${fixed(deviation, decimals[place])}`;
  };
  const cellOf = (cell, place, row) => {
    if (typeof cell === "number") {
      return html("td", { class: "number" }, withDeviation(fixed(cell, decimals[place]), place, row));
    }
    if (cell !== null && cell.length > LONG_CELL) return html("td", { dir: "auto", class: "long" }, breakable(cell));
    return html("td", { dir: "auto", class: numeric[place] ? "number" : null }, cell ?? "–");
  };
  const fill = () => body.replaceChildren(...rows.map((row) => html("tr", {}, row.map((cell, place) => cellOf(cell, place, row)))));
  const headings = block.columns.map((name, place) => {
    const heading = html("th", { scope: "col", class: numeric[place] ? "number" : null });
    heading.append(html("button", { type: "button", onclick: () => sortBy(place) }, name || "name"));
    return heading;
  });
  function sortBy(place) {
    const up = sorted !== place;
    sorted = up ? place : null;
    rows = [...block.rows].sort((one, other) => {
      const [a, b] = [one[place], other[place]];
      if (a === null || b === null) return (a === null) - (b === null);
      return (up ? 1 : -1) * inOrder(a, b);
    });
    headings.forEach((heading, number) => {
      if (number === place) heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    });
    fill();
  }
  fill();
  const head = html("thead", {}, html("tr", {}, headings));
  const table = html("table", { class: block.columns.length > MANY_COLUMNS ? "many" : null }, head, body);
  const caption = block.title ? html("h3", { dir: "auto" }, block.title) : null;
  const frame = html("div", {
    class: block.rows.length > LONG_TABLE ? "scroll long" : "scroll",
    tabindex: "0",
    role: "region",
    "aria-label": block.title || "table",
  }, table);
  return html("div", { class: "tabular" }, caption, frame);
}

// ---- Heat maps -------------------------------------------------------------------------------

const LONGEST_LABEL = 22;
const LETTERS = 12, LETTER = 6.4; // their size, and how wide one is

function labelRoom(names, letter) {
  const widest = Math.max(1, ...names.map((name) => letterWidth(shortened(name, LONGEST_LABEL))));
  return widest * letter + 8;
}

// Letters of Chinese, Japanese and Korean are twice as wide, and so are pictures.
const OF_CJK = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\u{20000}-\u{3fffd}]/u;
const OF_PICTURES = /[\u{1f300}-\u{1faff}]/u;

function letterWidth(text) {
  let width = 0;
  for (const letter of text) width += OF_CJK.test(letter) || OF_PICTURES.test(letter) ? 1.75 : 1;
  return width;
}

// A heat map that mouse, finger and arrow keys can read.
//   strength(row, column): 0 to 1, or null where there is nothing.
//   describe(row, column): what is told of a cell.
//   extras(row, column, box): more to draw in a cell.
//   over(place): more to draw above all cells.
//   moved(row, column): called when a cell is looked at, with nulls when none is.
function heatMap(map) {
  const { rows, columns, width, height } = map;
  const type = Math.max(8, Math.min(LETTERS, height, width)); // small cells have small letters
  const letter = LETTER * type / LETTERS;
  const turned = columns.some((name) => letterWidth(name) * letter > width - 2);
  const across = columns.length * width, down = rows.length * height;
  const titles = [map.rowTitle, map.columnTitle].map((title) => letterWidth(title) * LETTER);
  const lying = titles[0] > down; // the title of few rows is not turned
  const left = labelRoom(rows, letter) + (lying ? titles[0] + 8 : 16);
  const above = 4, below = (turned ? labelRoom(columns, letter) : 16) + 18;
  const right = Math.max(4, (titles[1] - across) / 2 + 4);
  const size = { width: left + across + right, height: above + down + below };
  const place = { left, above, width, height };
  const viewBox = `0 0 ${size.width} ${size.height}`;
  const picture = svg("svg", { class: "map", ...size, viewBox, "aria-hidden": "true" });
  picture.style.setProperty("--type", `${type}px`);
  const grid = gridLines(left, above, across, down, width, height);
  picture.append(drawnCells(map, place), grid, ...map.over ? map.over(place) : []);
  const columnNames = columns.map((name, column) => {
    const x = left + (column + 0.5) * width;
    const text = turned ? label(name, 0, 0, "end") : label(name, x, above + down + 14, "middle");
    if (turned) text.setAttribute("transform", `translate(${x + type / 3} ${above + down + 6}) rotate(-90)`);
    return text;
  });
  const twin = svg("rect", { class: "twin", width, height, visibility: "hidden" });
  const cursor = svg("rect", { class: "cursor", width, height, visibility: "hidden" });
  const underneath = { x: left + across / 2, y: size.height - 4, "text-anchor": "middle" };
  const columnTitle = svg("text", { ...underneath, class: "axis" }, map.columnTitle);
  picture.append(...columnNames, columnTitle, twin, cursor);
  const rowNames = rows.map((name, row) => label(name, left - 5, above + (row + 0.5) * height + type / 3, "end"));
  const beside = lying
    ? { x: 2, y: above + down / 2 + 4 }
    : { transform: `translate(11 ${above + down / 2}) rotate(-90)`, "text-anchor": "middle" };
  const rowTitle = svg("text", { ...beside, class: "axis" }, map.rowTitle);
  const ground = svg("rect", { width: left - 1, height: size.height, class: "ground" });
  const names = svg("g", { class: "names" }, ground, ...rowNames, rowTitle);
  picture.append(names);
  return readable(map, { picture, cursor, twin, names, rowNames, columnNames }, place);
}

function drawnCells(map, { left, above, width, height }) {
  const cells = svg("g", {});
  for (let row = 0; row < map.rows.length; row++) {
    for (let column = 0; column < map.columns.length; column++) {
      const strength = map.strength(row, column);
      const box = { x: left + column * width, y: above + row * height, width, height };
      if (strength === null) cells.append(svg("rect", { ...box, class: "nothing" }), hatching(box));
      else if (strength > 0) cells.append(svg("rect", { ...box, class: "heat", "fill-opacity": strength.toFixed(3) }));
      const more = map.extras ? map.extras(row, column, box) : null;
      if (more) cells.append(...more);
    }
  }
  return cells;
}

// Slanted lines that fill a box: there is no value.
function hatching({ x, y, width, height }) {
  let path = "";
  for (let at = 5; at < width + height; at += 6) {
    const from = `${x + Math.max(0, at - height)} ${y + Math.min(at, height)}`;
    const to = `${x + Math.min(at, width)} ${y + Math.max(0, at - width)}`;
    path += `M${from}L${to}`;
  }
  return svg("path", { d: path, class: "hatching" });
}

function gridLines(left, above, across, down, width, height) {
  let path = "";
  for (let x = 0; x <= across + 0.1; x += width) path += `M${left + x} ${above}v${down}`;
  for (let y = 0; y <= down + 0.1; y += height) path += `M${left} ${above + y}h${across}`;
  return svg("path", { d: path, class: "grid" });
}

function label(text, x, y, anchor) {
  const whole = svg("title", {}, text);
  return svg("text", { x, y, "text-anchor": anchor, class: "label" }, whole, shortened(text, LONGEST_LABEL));
}

function readable(map, parts, place) {
  const { picture, cursor, twin, names, rowNames, columnNames } = parts;
  const frame = html("div", {
    class: "scroll mapped",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "heat map",
    "aria-label": `${map.title}. Arrow keys move from cell to cell.`,
  }, picture);
  frame.style.scrollPaddingLeft = `${place.left}px`;
  const keepInSight = () => names.setAttribute("transform", `translate(${frame.scrollLeft} 0)`);
  frame.addEventListener("scroll", keepInSight);
  let at = null;
  const put = (mark, row, column) => {
    mark.setAttribute("x", place.left + column * place.width);
    mark.setAttribute("y", place.above + row * place.height);
    mark.setAttribute("visibility", "visible");
  };
  const name = (row, column) => {
    rowNames.forEach((node, number) => node.classList.toggle("on", number === row));
    columnNames.forEach((node, number) => node.classList.toggle("on", number === column));
  };
  const look = (row, column) => {
    at = [row, column];
    put(cursor, row, column);
    name(row, column);
    if (map.moved) map.moved(row, column);
    return map.describe(row, column);
  };
  const leave = () => {
    cursor.setAttribute("visibility", "hidden");
    name(null, null);
    if (map.moved) map.moved(null, null);
    tip.hide();
  };
  // Marks the cell that is looked at in the map beside this one.
  frame.follow = (row, column) => {
    const isThere = row !== null && row < map.rows.length && column < map.columns.length;
    if (isThere) put(twin, row, column);
    else twin.setAttribute("visibility", "hidden");
    name(isThere ? row : null, isThere ? column : null);
  };
  watch(picture, (event) => {
    const box = picture.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - place.left) / place.width);
    const row = Math.floor((event.clientY - box.top - place.above) / place.height);
    const isOnNames = event.clientX < frame.getBoundingClientRect().left + place.left;
    const isOnMap = row >= 0 && column >= 0 && row < map.rows.length && column < map.columns.length;
    if (isOnNames || !isOnMap) leave();
    else tip.show(look(row, column), event.clientX, event.clientY);
  }, leave);
  frame.addEventListener("blur", leave);
  const upAndDown = { ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const moves = { ...upAndDown, ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -1e6], End: [0, 1e6] };
  frame.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leave();
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [down, right] = at ? moves[event.key] : [0, 0];
    const bounded = (number, length) => Math.min(Math.max(number, 0), length - 1);
    const row = bounded((at ? at[0] : 0) + down, map.rows.length);
    const column = bounded((at ? at[1] : 0) + right, map.columns.length);
    const text = look(row, column);
    cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
    tip.beside(cursor, text);
  });
  return frame;
}

// The scale of the colours.
function scale(low, high, title) {
  const ends = [low, high].map((text) => html("span", {}, text));
  const bar = html("span", { class: "bar" });
  const axis = title ? html("span", { class: "axis" }, title) : null;
  return html("div", { class: "scale", "aria-hidden": "true" }, ends[0], bar, ends[1], axis);
}

function absentSign(text) {
  const box = { x: 0.5, y: 0.5, width: 21, height: 11 };
  const ground = svg("rect", { ...box, class: "nothing framed" });
  const sign = svg("svg", { width: 22, height: 12, "aria-hidden": "true" }, ground, hatching(box));
  return html("span", { class: "absent" }, sign, text);
}

// From these strengths on, white letters are easier to read than black ones on light paper, and
// black ones easier than white ones on dark paper.
const TURNS = { light: 0.928, dark: 0.623 };

function lettersOn(strength) {
  const inLight = strength > TURNS.light, inDark = strength > TURNS.dark;
  if (inLight && inDark) return " strong";
  return inDark ? " middle" : "";
}

function drawGrid(block) {
  const numbers = block.values.flat().filter((value) => value !== null);
  const [low, high] = block.ends || ends(numbers);
  const decimals = decimalsOf(numbers, block.decimals);
  const strengthOf = (value) => {
    if (!(high > low)) return 1;
    const share = (value - low) / (high - low);
    return 0.08 + 0.92 * (block.low ? 1 - share : share);
  };
  const withUnit = (value) => shown(value, decimals) + (block.unit && value !== null ? NO_BREAK + block.unit : "");
  const describe = (row, column) => {
    const where = `${block.row_title} ${block.rows[row]}, ${block.column_title} ${block.columns[column]}`;
    const told = `${block.title}: ${where}: ${withUnit(block.values[row][column])}`;
    const note = block.notes.length ? block.notes[row][column] : "";
    return note ? `${told}; ${note}` : told;
  };
  const markOf = (row, column) => block.marks.length && block.marks[row][column] ? ` ${block.marks[row][column]}` : "";
  const inCell = (row, column, box) => {
    const value = block.values[row][column];
    const letters = value === null ? "" : lettersOn(strengthOf(value));
    const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 + 4, "text-anchor": "middle" };
    return value === null ? null : [svg("text", { ...middle, class: `cell${letters}` }, shown(value, decimals) + markOf(row, column))];
  };
  const frame = heatMap({
    title: block.title,
    rows: block.rows,
    columns: block.columns,
    rowTitle: block.row_title,
    columnTitle: block.column_title,
    width: 52,
    height: 26,
    strength: (row, column) => block.values[row][column] === null ? null : strengthOf(block.values[row][column]),
    describe,
    extras: inCell,
  });
  const table = () => drawTable({
    columns: [block.row_title, ...block.columns.map((name) => `${block.column_title} ${name}`)],
    rows: block.rows.map((name, row) => [name, ...block.values[row].map((value, column) => {
      const mark = markOf(row, column);
      return mark ? shown(value, decimals) + mark : value;
    })]),
    title: "",
    decimals: block.decimals,
  });
  const caption = html("figcaption", { dir: "auto" }, block.title);
  const colours = gridScale(block, numbers.length, low, high, withUnit);
  const mark = block.mark && block.marks.flat().some(Boolean) ? html("p", { class: "note" }, block.mark) : null;
  return html("figure", {}, caption, about(block), frame, colours, mark, asTable(table));
}

function gridScale(block, count, low, high, withUnit) {
  const [light, dark] = block.low ? [high, low] : [low, high];
  const lightest = high > low ? withUnit(light) : "";
  const node = count ? scale(lightest, withUnit(dark), "") : html("div", { class: "scale" });
  if (block.values.flat().includes(null)) node.append(absentSign(block.absent));
  return node;
}

// A line for readers who do not know the term.
function about(block) {
  const parts = [block.about, block.low ? "lower is better" : ""].filter(Boolean);
  const room = block.about && block.type === "grid" ? " two-lines" : "";
  return parts.length ? html("p", { class: `note about${room}` }, parts.join("; ")) : null;
}

// ---- Curves ----------------------------------------------------------------------------------

const CHART = { width: 430, height: 270, right: 14, above: 12, below: 42 };
const COLOURS = 8;
const MOST_NAMED = 16;
const LONGEST_NAME = 14; // of a place on an axis of names

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
  const decimals = decimalsOf(ys, block.decimals);
  let [bottom, top] = ends(ys);
  const margin = (top - bottom || Math.abs(top) || 1) * 0.06;
  if (block.zero) bottom = Math.min(0, bottom);
  else bottom -= margin;
  top += margin;
  let [first, last] = ends(xs);
  const padding = isNamed ? 0.35 : (last - first || 1) * 0.04;
  first -= padding;
  last += padding;
  const { width, height, right, above } = CHART;
  const vertical = ticks(bottom, top, 5);
  const upright = vertical.marks.map((y) => [y, fixed(y, vertical.decimals)]);
  const named = names.map((name, place) => [place, shortened(name, LONGEST_NAME)]);
  const horizontal = isNamed ? named : wholeTicks(first, last);
  const left = 14 + LETTER * Math.max(...upright.map(([, name]) => name.length));
  const widest = LETTER * Math.max(...horizontal.map(([, name]) => letterWidth(name)));
  const turned = widest > (width - left - right) / horizontal.length - 4;
  const below = turned ? CHART.below + widest - 10 : CHART.below;
  return {
    isNamed, names, xOf, decimals, upright, horizontal, turned, left, below,
    across: (x) => left + (x - first) / (last - first) * (width - left - right),
    up: (y) => height - below - (y - bottom) / (top - bottom) * (height - above - below),
  };
}

// Layers, heads and updates are whole numbers.
function wholeTicks(first, last) {
  const { marks, decimals } = ticks(first, last, 7);
  const whole = marks.filter((x) => Number.isInteger(Number(x.toFixed(9))));
  return whole.length ? whole.map((x) => [x, fixed(x, 0)]) : marks.map((x) => [x, fixed(x, decimals)]);
}

function drawCurves(block) {
  if (!block.curves.some((curve) => curve.points.length)) return nothingMeasured(block);
  const axes = axesOf(block);
  const picture = chartPicture();
  picture.append(...drawnAxes(block, axes));
  const groups = block.curves.map((curve, number) => drawnCurve(curve, colourOf(curve, number), axes));
  if (groups.length <= MOST_NAMED) widenLower(groups);
  picture.append(...groups);
  const frame = html("div", {
    class: "charted",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "chart",
    "aria-label": `${block.title}. Left and right move along a curve, up and down between curves.`,
  }, picture);
  const kept = { number: null }; // the curve whose name is pressed
  followPoints(block, axes, picture, frame, groups, kept);
  const isMarked = block.curves.some((curve) => curve.points.some((point) => point.marked));
  const mark = block.mark && isMarked ? `◎ ${block.mark}` : "";
  const dashes = block.curves.some((curve) => curve.dashed) ? block.dashes : "";
  const notes = [mark, dashes].filter(Boolean).map((text) => html("p", { class: "note" }, text));
  const table = () => drawTable(curvesAsTable(block, axes));
  return chartFigure(block, frame, legend(block, groups, kept), notes, asTable(table));
}

function chartFigure(block, frame, ...below) {
  const caption = html("figcaption", { dir: "auto" }, block.title);
  const isTold = block.title.endsWith(block.y_title);
  const yTitle = isTold ? null : html("p", { class: "y-title", dir: "auto" }, block.y_title);
  return html("figure", { class: "wide" }, caption, about(block), yTitle, frame, ...below);
}

function chartPicture() {
  const viewBox = `0 0 ${CHART.width} ${CHART.height}`;
  return svg("svg", { class: "chart", viewBox, "aria-hidden": "true" });
}

function nothingMeasured(block) {
  return html("p", { class: "note" }, `${block.title}: nothing was measured.`);
}

// Clouds of points: curves without lines. On a logarithmic axis, 0 has no place.
function drawClouds(block) {
  const placed = ([x, y]) => ({ x: block.log_x ? Math.log10(x) : x, y });
  const curves = block.clouds.map((cloud) => {
    const points = cloud.points.filter(([x]) => x > 0 || !block.log_x).map(placed);
    return { name: cloud.name, points };
  });
  if (!curves.some((curve) => curve.points.length)) return nothingMeasured(block);
  const asCurves = { ...block, curves, colours: block.clouds.map((cloud) => cloud.name) };
  const axes = axesOf(asCurves);
  if (block.log_x) axes.horizontal = axes.horizontal.map(([x]) => [x, String(Number((10 ** x).toPrecision(2)))]);
  const picture = chartPicture();
  picture.append(...drawnAxes(block, axes));
  const groups = curves.map((curve, number) => {
    const dots = curve.points.map(({ x, y }) => svg("circle", { cx: axes.across(x).toFixed(1), cy: axes.up(y).toFixed(1), r: 2, class: "dot" }));
    return svg("g", { class: `curve cloud c${number % COLOURS}` }, dots);
  });
  picture.append(...groups);
  return chartFigure(block, html("div", { class: "charted" }, picture), legend(asCurves, groups, { number: null }));
}

function colourOf(curve, number) {
  return (curve.colour ?? number) % COLOURS;
}

// The first curves, which later ones may cover, are wider: both are seen where they meet.
function widenLower(groups) {
  const last = groups.length - 1;
  groups.forEach((group, number) => {
    const share = last ? (last - number) / last : 0;
    group.style.setProperty("--width", `${(1.5 + 1.8 * share).toFixed(2)}px`);
  });
}

function drawnAxes(block, axes) {
  const { width, height, right } = CHART;
  const { left, below } = axes;
  const parts = [];
  for (const [y, name] of axes.upright) {
    parts.push(svg("line", { x1: left, x2: width - right, y1: axes.up(y), y2: axes.up(y), class: "grid" }));
    parts.push(svg("text", { x: left - 6, y: axes.up(y) + 4, "text-anchor": "end", class: "label" }, name));
  }
  for (const [x, name] of axes.horizontal) {
    const place = axes.turned
      ? { transform: `translate(${axes.across(x) + 4} ${height - below + 8}) rotate(-90)`, "text-anchor": "end" }
      : { x: axes.across(x), y: height - below + 16, "text-anchor": "middle" };
    parts.push(svg("text", { ...place, class: "label" }, name));
  }
  const ground = { y1: height - below, y2: height - below };
  parts.push(svg("line", { x1: left, x2: width - right, ...ground, class: "frame" }));
  const middle = { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" };
  parts.push(svg("text", { ...middle, class: "axis" }, block.x_title));
  return parts;
}

function drawnCurve(curve, colour, axes) {
  const group = svg("g", { class: `curve c${colour}${curve.dashed ? " dashed" : ""}` });
  const places = curve.points.map((point) => [axes.across(axes.xOf(point)), axes.up(point.y)]);
  const corners = places.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`);
  if (places.length > 1) group.append(svg("path", { d: `M${corners.join("L")}`, class: "line" }));
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

function swatch(colour, dashed) {
  const line = svg("path", { d: "M1 5h24", class: "line" });
  const curve = svg("g", { class: `curve c${colour}${dashed ? " dashed" : ""}` }, line);
  return svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, curve);
}

// Names of curves, which can be pressed; of many curves, what their colours mean.
function legend(block, groups, kept) {
  if (block.curves.length < 2) return null;
  if (block.curves.length > MOST_NAMED) {
    const colours = block.colours.map((name, colour) => html("li", {}, swatch(colour % COLOURS, false), name));
    const note = html("p", { class: "note" }, `${block.curves.length} lines; each is named where the mouse is.`);
    return html("div", {}, html("ul", { class: "legend" }, colours), note);
  }
  const list = html("ul", { class: "legend" });
  block.curves.forEach((curve, number) => {
    const line = swatch(colourOf(curve, number), curve.dashed);
    const name = html("span", { dir: "auto" }, curve.name);
    const button = html("button", { type: "button", "aria-pressed": "false" }, line, name);
    button.addEventListener("click", () => {
      kept.number = kept.number === number ? null : number;
      list.querySelectorAll("button").forEach((other, place) => {
        other.setAttribute("aria-pressed", String(place === kept.number));
      });
      highlight(groups, kept.number);
    });
    button.addEventListener("pointerenter", () => highlight(groups, number));
    button.addEventListener("pointerleave", () => highlight(groups, kept.number));
    list.append(html("li", {}, button));
  });
  return list;
}

function highlight(groups, number) {
  groups.forEach((group, place) => group.classList.toggle("faint", number !== null && place !== number));
}

function describePoint(block, axes, curve, point) {
  const number = (value) => shown(value, axes.decimals);
  const interval = point.low !== null && point.high !== null ? ` (${number(point.low)} to ${number(point.high)})` : "";
  const note = [point.note, point.marked ? block.mark : ""].filter(Boolean).join(", ");
  const x = shown(point.x, decimalsOf([point.x], block.decimals));
  return `${curve.name}: ${block.x_title} ${x}: ${number(point.y)}${interval}${note ? `; ${note}` : ""}`;
}

// The point that is nearest to the mouse, or that arrow keys have reached, is told.
function followPoints(block, axes, picture, frame, groups, kept) {
  const known = [];
  block.curves.forEach((curve, number) => curve.points.forEach((point, place) => {
    const [x, y] = [axes.across(axes.xOf(point)), axes.up(point.y)];
    known.push({ number, place, curve, point, x, y });
  }));
  const ring = svg("circle", { r: 6, class: "cursor", visibility: "hidden" });
  picture.append(ring);
  const look = (near) => {
    ring.setAttribute("cx", near.x);
    ring.setAttribute("cy", near.y);
    ring.setAttribute("visibility", "visible");
    highlight(groups, groups.length > 1 ? near.number : null);
    return describePoint(block, axes, near.curve, near.point);
  };
  const leave = () => {
    ring.setAttribute("visibility", "hidden");
    highlight(groups, kept.number);
    tip.hide();
  };
  watch(picture, (event) => {
    const box = picture.getBoundingClientRect();
    const x = (event.clientX - box.left) * CHART.width / box.width;
    const y = (event.clientY - box.top) * CHART.height / box.height;
    const distance = (one) => Math.hypot(one.x - x, one.y - y);
    const near = known.reduce((best, one) => distance(one) < distance(best) ? one : best);
    if (distance(near) < 40) tip.show(look(near), event.clientX, event.clientY);
    else leave();
  }, leave);
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
    tip.beside(ring, look(at));
  });
}

function curvesAsTable(block, axes) {
  const xs = [...new Set(block.curves.flatMap((curve) => curve.points.map((point) => point.x)))];
  if (!axes.isNamed) xs.sort((a, b) => a - b);
  const number = (value) => shown(value, axes.decimals);
  const rows = xs.map((x) => [x, ...block.curves.map((curve) => {
    const point = curve.points.find((one) => one.x === x);
    if (!point) return null;
    return point.low === null ? point.y : `${number(point.y)} (${number(point.low)} to ${number(point.high)})`;
  })]);
  const columns = [block.x_title, ...block.curves.map((curve) => curve.name)];
  return { columns, rows, title: "", decimals: block.decimals };
}
