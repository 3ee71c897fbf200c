// The panels drawn again for some of the runs: from one slider's run to the other's.
(() => {
  "use strict";
  const zoom = document.querySelector(".zoom");
  if (!zoom) return;
  const [from, to] = zoom.querySelectorAll("input"), said = zoom.querySelector("output");
  const dates = zoom.dataset.dates.split(" "), last = dates.length - 1;
  const numbers = text => text.trim().split(/[\s,]+/).map(Number);

  // What of a panel moves along the axis, as it was drawn: shapes with corners, and dots.
  const panels = [...document.querySelectorAll("[data-panel]")].map(panel => {
    const box = panel.querySelector("path").getBBox();
    const margin = box.width * zoom.dataset.margin / (last + 2 * zoom.dataset.margin);
    return {
      left: box.x, right: box.x + box.width,
      first: box.x + margin, end: box.x + box.width - margin,
      shapes: [...panel.querySelectorAll("path[clip-path]")].map(node => ({ node, d: node.getAttribute("d") })),
      dots: [...panel.querySelectorAll("use[data-row]")].map(node => ({ node, x: Number(node.getAttribute("x")) })),
      days: [...panel.querySelectorAll("text")].filter(text => /^\d{4}-\d\d-\d\d$/.test(text.textContent)),
    };
  });

  // M, L and H have an x at every other number, or alone; V has none.
  const moved = (d, place) => d.replace(/([MLH])([^A-Za-z]*)/g, (_, letter, text) =>
    letter + numbers(text).map((n, i) => i % 2 ? n : place(n).toFixed(1)).join(" "));

  const draw = () => {
    const ends = [from, to].map(slider => slider.value - 1).sort((a, b) => a - b);
    // A stretch of one run has no width: it is drawn with the run beside it.
    const low = Math.min(ends[0], last - 1), high = Math.max(ends[1], low + 1);
    for (const { left, right, first, end, shapes, dots, days } of panels) {
      const start = first + (end - first) * low / last, scale = last / (high - low);
      const place = x => first + (x - start) * scale;
      for (const { node, d } of shapes) node.setAttribute("d", scale === 1 ? d : moved(d, place));
      for (const { node, x } of dots) {
        const at = place(x);
        node.setAttribute("x", at.toFixed(1));
        node.classList.toggle("off", at < left || at > right);
      }
      [dates[low], dates[high]].forEach((day, i) => { if (days[i]) days[i].textContent = day; });
    }
    for (const slider of [from, to])
      slider.setAttribute("aria-valuetext", `run ${slider.value}, ${dates[slider.value - 1]}`);
    said.textContent = `${dates[low]} to ${dates[high]}, ${high - low + 1} of ${last + 1} runs`;
  };

  zoom.hidden = false;
  zoom.addEventListener("input", draw);
  document.getElementById("filters").addEventListener("drawn", draw);
  draw();
})();
