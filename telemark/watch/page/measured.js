// Flows and their paths, and the messages of collectors and experiments: series, ground truth, alerts.
// watch.js precedes this script.
const MAX_POINTS = 5000, MAX_ALERTS = 300;
const series = new Map(); // from key to {name, network, points, truth, row}
const paths = new Map(); // from network and endpoints of a flow to {source, nodes}
let flowRows = [], shownFlows = [], chosenFlow = "", chosenSeries = "", showsTruth = true;

// Adds a row with a button to a table. Returns the cells behind the button.
function buttonRow(table, label, count, onClick) {
  const row = $(table).insertRow(), button = document.createElement("button");
  button.textContent = label;
  button.addEventListener("click", onClick);
  row.insertCell().append(button);
  return {row, button, cells: Array.from({length: count}, () => row.insertCell())};
}

function reveal(id) {
  $(id).hidden = false;
}

// --- flows ---

const pathKey = endpoints => `${network?.name} ${endpoints.join(" ")}`;

// All flows of the traffic, then flows that only a telemetry method knows.
function knownFlows(flows) {
  const found = flows.map(({id, protocol, from, to, endpoints, path, counts}) =>
    ({label: `${id}: ${from} to ${to}, ${protocol} ${endpoints[3]}`, key: pathKey(endpoints), path, counts,
      isTcp: protocol === "TCP"}));
  const keys = new Set(found.map(flow => flow.key));
  for (const [key, {name, endpoints: [source, to, , port]}] of paths) {
    if (name === network?.name && !keys.has(key)) found.push({label: `${source} to ${to} port ${port}`, key});
  }
  return found;
}

function pathOf({key, path}) {
  const measured = paths.get(key);
  return measured ? {source: measured.source, nodes: measured.nodes} : path ? {source: "shortest path", nodes: path} : null;
}

function showFlows() {
  const focused = shownFlows[flowRows.findIndex(({button}) => button === document.activeElement)]?.key;
  shownFlows = knownFlows(network?.flows ?? []);
  $("flows").replaceChildren();
  flowRows = shownFlows.map(flow => buttonRow("flows", flow.label, 4, () => chooseFlow(flow.key)));
  if (shownFlows.length) reveal("flows-section");
  flowRows.forEach(({cells}) => cells.slice(0, 3).forEach(cell => { cell.className = "number"; }));
  flowRows[shownFlows.findIndex(flow => flow.key === focused)]?.button.focus({preventScroll: true});
  updateFlows();
}

// Shows the counts of the time that the page shows, or those at the end of the traffic. Packets still
// in the network are not lost, so the number of lost packets is shown at the end. TCP counts bytes.
function updateFlows() {
  shownFlows.forEach((flow, index) => {
    const {button, cells} = flowRows[index], path = pathOf(flow);
    const running = now?.flows?.[index], [sent, received] = running ?? flow.counts ?? [];
    const lost = flow.counts && !running && !flow.isTcp ? sent - received : undefined;
    [sent, received, lost].forEach((value, i) =>
      setText(cells[i], value === undefined ? "" : `${value}${flow.isTcp ? " B" : ""}`));
    setText(cells[3], path ? `${path.nodes.join(", ")} (${path.source})` : "");
    button.setAttribute("aria-pressed", flow.key === chosenFlow);
  });
}

function chooseFlow(key) {
  chosenFlow = key === chosenFlow ? "" : key;
  updateFlows();
  draw();
}

// Draws the path of the chosen flow, below the links. `points` maps each node to its place.
function drawPath(pen, points) {
  const flow = shownFlows.find(each => each.key === chosenFlow), path = flow && pathOf(flow);
  if (!path) return;
  const described = network.flows?.find(each => pathKey(each.endpoints) === chosenFlow);
  const nodes = described ? [described.from, ...path.nodes, described.to] : path.nodes;
  pen.beginPath();
  for (const node of nodes) if (points.has(node)) pen.lineTo(...points.get(node));
  pen.save();
  [pen.lineWidth, pen.lineCap, pen.lineJoin, pen.strokeStyle, pen.globalAlpha] = [18, "round", "round", colour("good"), .35];
  pen.stroke();
  pen.restore();
}

// --- series ---

function showPoints({network: name, series: labels, points, truth}) {
  const key = JSON.stringify([name, ...labels]);
  let found = series.get(key);
  if (!found) {
    // the chart follows its series to the next network, unless the user has selected an earlier one
    const before = [...series.values()].filter(each => `${each.labels}` === `${labels}`).at(-1);
    const isNext = !chosenSeries || (before && before === series.get(chosenSeries));
    const [source, quantity, where, unit] = labels;
    const {button, cells} = buttonRow("series", where, 5, () => chooseSeries(key));
    [cells[0].textContent, cells[3].textContent, cells[4].textContent] = [`${source}: ${quantity}`, unit, name];
    cells[1].className = cells[2].className = "number";
    found = {name, labels, points: [], truth: [], button, cells};
    series.set(key, found);
    button.setAttribute("aria-label", `${source}: ${quantity}, ${where}`);
    reveal("series-section");
    if (isNext) chooseSeries(key);
  }
  for (const [list, more] of [[found.points, points], [found.truth, truth]]) {
    list.push(...more);
    list.splice(0, list.length - MAX_POINTS);
  }
  requestDrawSeries();
}

function chooseSeries(key) {
  chosenSeries = key;
  for (const [each, {button}] of series) button.setAttribute("aria-pressed", each === key);
  drawSeries();
}

// Returns the value whose time is nearest to `time`, because there may be more true values than measured ones.
function nearest(list, time = Infinity) {
  let found;
  for (const point of list) if (!found || Math.abs(point[0] - time) <= Math.abs(found[0] - time)) found = point;
  return found?.[1];
}

const round = value => value === undefined ? "" : `${Number(value.toPrecision(6))}`;

function drawSeries() {
  for (const {points, truth, cells} of series.values()) {
    setText(cells[1], round(points.at(-1)?.[1]));
    setText(cells[2], showsTruth ? round(nearest(truth, points.at(-1)?.[0])) : "");
  }
  const shown = series.get(chosenSeries);
  if (!shown) return;
  const {name, labels: [source, quantity, where, unit], points, truth} = shown;
  setText($("series-title"), `${source}: ${quantity}, ${where} (${unit})${name && name !== network?.name ? `, network ${name}` : ""}`);
  const [pen, width] = clean($("series-chart"), 182);
  const curves = [[points, "link", "measured"], ...(showsTruth && truth.length ? [[truth, "ink", "ground truth"]] : [])];
  const all = curves.flatMap(curve => curve[0]), times = all.map(point => point[0]), values = all.map(point => point[1]);
  if (!all.length) return; // the ground truth is hidden, and there is nothing else
  const range = list => [list.reduce((a, b) => Math.min(a, b)), list.reduce((a, b) => Math.max(a, b))];
  const [begin, end] = range(times), [low, high] = range([0, ...values]);
  const x = s => 56 + (width - 66) * (end > begin ? (s - begin) / (end - begin) : .5);
  const y = value => 132 - 118 * (value - low) / (high - low || 1);
  pen.fillStyle = colour("quiet");
  for (const value of new Set([low, high])) {
    pen.fillText(round(value), 28, y(value));
    pen.strokeRect(56, y(value), width - 66, 0);
  }
  pen.fillText(`${begin.toFixed(3)} s`, 76, 148);
  pen.fillText(`${end.toFixed(3)} s`, width - 34, 148);
  curves.forEach(([list, name, label], index) => {
    pen.strokeStyle = pen.fillStyle = colour(name);
    pen.setLineDash(index ? [2, 3] : []);
    pen.lineWidth = index ? 1.2 : 3;
    pen.beginPath();
    for (const [s, value] of list) pen.lineTo(x(s), y(value));
    pen.stroke();
    pen.setLineDash([]);
    if (list.length < 60) {
      for (const [s, value] of list) {
        pen.beginPath();
        pen.arc(x(s), y(value), index ? 6 : 3.5, 0, 7);
        if (index) pen.stroke();
        else pen.fill();
      }
    }
    pen.fillText(label, width * (index ? .65 : .4), 163);
  });
}

function toggleTruth() {
  showsTruth = !showsTruth;
  $("truth").setAttribute("aria-pressed", showsTruth);
  drawSeries();
}

// --- alerts ---

function showAlert({network: name, alert: [time, source, text]}) {
  const row = $("alerts").insertRow(0);
  [`${time.toFixed(3)} s`, name, source, text].forEach(value => { row.insertCell().textContent = value; });
  if ($("alerts").rows.length > MAX_ALERTS) $("alerts").deleteRow(-1);
  reveal("alerts-section");
}

// --- events ---

// A browser that connects late receives thousands of messages at once.
const requestDrawSeries = inNextFrame(drawSeries), requestShowFlows = inNextFrame(showFlows);

function showMessage(message) {
  if (message.series) showPoints(message);
  if (message.alert) showAlert(message);
  if (message.path) {
    const [source, endpoints, nodes] = message.path;
    paths.set(`${message.network} ${endpoints.join(" ")}`, {name: message.network, source, endpoints, nodes});
    requestShowFlows();
  }
}

on("network", showFlows);
on("flows", flows => {
  network.flows = flows;
  showFlows();
});
on("message", showMessage);
$("truth").addEventListener("click", toggleTruth);
addEventListener("keydown", event => {
  if (event.key === "g" && !event.ctrlKey && !event.metaKey && !event.altKey) toggleTruth();
});
addEventListener("resize", drawSeries);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSeries);
