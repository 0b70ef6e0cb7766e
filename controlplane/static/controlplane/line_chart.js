// The values under the pointer in a chart that the server drew: time in UTC and by this clock.
"use strict";

(function readCharts() {
  const card = document.createElement("div");
  card.className = "chart-values";
  card.hidden = true;
  const cursor = document.createElement("div");
  cursor.className = "chart-cursor";
  cursor.hidden = true;
  document.body.append(cursor, card);

  const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
  const lasting = (ms) => {
    const at = UNITS.findIndex(([size]) => ms >= size);
    if (at < 0) return ms ? `${ms} ms` : "0 s";
    const [size, unit] = UNITS[at];
    const rest = UNITS[at + 1] && Math.floor((ms % size) / UNITS[at + 1][0]);
    return `${Math.floor(ms / size)} ${unit}${rest ? ` ${rest} ${UNITS[at + 1][1]}` : ""}`;
  };
  const counted = (value, unit) => `${value.toLocaleString("en-US")} ${unit}`;
  const shown = (value, unit = "ms") => (unit === "ms" ? lasting(value) : counted(value, unit));
  const local = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" });
  const hide = () => { card.hidden = cursor.hidden = true; };

  const show = (plot, event) => {
    const box = plot.getBoundingClientRect();
    const series = [...plot.querySelectorAll(".series")];
    const values = series.map((one) => one.dataset.values.split(","));
    const at = Math.min(values[0].length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * values[0].length)));
    const when = new Date((Number(plot.dataset.start) + at * Number(plot.dataset.step)) * 1000);
    const head = document.createElement("p");
    head.textContent = `${when.toISOString().slice(11, 16)} UTC · ${local.format(when)}`;
    const rows = series.map((one, number) => {
      const row = document.createElement("p");
      row.dataset.color = one.dataset.color;
      const swatch = document.createElement("i");
      swatch.className = "swatch";
      const value = values[number][at];
      row.append(swatch, `${one.dataset.name}: ${value === "" ? "unknown" : shown(Number(value), plot.dataset.unit)}`);
      return row;
    });
    card.replaceChildren(head, ...rows.reverse());
    card.hidden = cursor.hidden = false;
    const x = box.left + ((at + 0.5) / values[0].length) * box.width;
    cursor.style.cssText = `left:${x}px;top:${box.top}px;height:${box.height}px`;
    const left = x + 12 + card.offsetWidth > innerWidth ? Math.max(4, x - 12 - card.offsetWidth) : x + 12;
    card.style.cssText = `left:${left}px;top:${Math.max(4, box.top)}px`;
  };

  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.(".line-chart .plot");
    if (plot) show(plot, event);
    else if (!card.hidden) hide();
  });
  addEventListener("scroll", hide, { passive: true });
})();
