// Drawing on canvases, in the colours of page.css. It precedes the script of a page.
"use strict";
const colours = new Map();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colours.clear());

function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`));
  return colours.get(name);
}

// Clears a canvas and sets its height; coordinates are CSS pixels.
function clean(canvas, height) {
  const width = canvas.clientWidth, ratio = window.devicePixelRatio;
  [canvas.width, canvas.height] = [width * ratio, height * ratio];
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "12px system-ui, sans-serif";
  [pen.textAlign, pen.textBaseline, pen.strokeStyle] = ["center", "middle", colour("line")];
  return [pen, width];
}

// Draws a node with its name: an ellipse for a switch, and a rectangle for a host.
function drawNode(pen, name, [x, y], isSwitch, size) {
  const half = Math.max(size, pen.measureText(name).width / 2 + 3);
  pen.beginPath();
  if (isSwitch) pen.ellipse(x, y, half, size, 0, 0, 7);
  else pen.rect(x - half, y - .7 * size, 2 * half, 1.4 * size);
  pen.fillStyle = colour("soft");
  pen.fill();
  pen.stroke();
  pen.fillStyle = colour("ink");
  pen.fillText(name, x, y);
}

// --- charts of packets over time; there is room for text below ---

const CHART_LEFT = 44, CHART_RIGHT = 10, CHART_TOP = 13, CHART_BOTTOM = 25;

// Clears a chart, and draws its scale from 0 to `most` packets. `x` returns the position of a part
// of the time, from 0 to 1, and `y` that of a number of packets.
function startChart(canvas, height, most) {
  const [pen, width] = clean(canvas, height), room = width - CHART_LEFT - CHART_RIGHT;
  const x = part => CHART_LEFT + room * part;
  const y = packets => height - CHART_BOTTOM - (height - CHART_BOTTOM - CHART_TOP) * packets / most;
  pen.fillStyle = colour("quiet");
  for (const packets of [0, most]) {
    pen.fillText(packets, CHART_LEFT / 2, y(packets));
    pen.strokeRect(CHART_LEFT, y(packets), room, 0);
  }
  return {pen, width, x, y};
}

// Marks the time that the page shows.
function drawCursor(pen, x, height) {
  pen.fillStyle = colour("focus");
  pen.fillRect(x - 1, CHART_TOP - 5, 2, height - CHART_BOTTOM - CHART_TOP + 5);
}

// Calls `seek` with the part of the time that the user selects in a chart.
function onChartTime(canvas, seek) {
  canvas.addEventListener("pointerdown", event =>
    seek((event.offsetX - CHART_LEFT) / (canvas.clientWidth - CHART_LEFT - CHART_RIGHT)));
}
