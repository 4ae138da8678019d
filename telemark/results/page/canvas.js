// Drawing on canvases, in the colours of page.css. It precedes the script of a page.
"use strict";
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

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
