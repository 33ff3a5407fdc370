() => {
  // A list of what is wrong with a page for those who don't see it, or use no mouse: own checks, as axe has them.
  const problems = [];
  const shown = (element) => {
    if (element.closest("[hidden]") || element.closest(".skip, .unseen, .sprite")) return false;
    return element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  };
  const name = (element) => {
    const by = element.getAttribute("aria-labelledby");
    if (by) return by.split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim();
    const label = element.labels?.[0]?.textContent ?? "";
    return (element.getAttribute("aria-label") ?? "").trim() || label.trim() || element.textContent.trim();
  };
  const where = (element) => `${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ""}.${element.className}`;

  if (!document.documentElement.lang) problems.push("html has no lang");
  if (!document.title) problems.push("the page has no title");
  const frame = document.querySelector("main.sign-in") ? [] : ["header", "nav[aria-label]"];
  for (const one of ["main", "h1", ...frame]) {
    if (document.querySelectorAll(one).length !== 1) problems.push(`${document.querySelectorAll(one).length} ${one}, not 1`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, index) => ids.indexOf(id) !== index))) problems.push(`id ${id} is not unique`);
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls"]) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(" ")) {
        if (!document.getElementById(id)) problems.push(`${where(element)}: ${attribute} names no element: ${id}`);
      }
    }
  }
  let level = 0;
  for (const heading of [...document.querySelectorAll("h1, h2, h3, h4")].filter(shown)) {
    const at = Number(heading.tagName[1]);
    if (at > level + 1) problems.push(`${where(heading)}: follows a heading of level ${level}`);
    level = at;
  }
  for (const element of document.querySelectorAll("a[href], button, input, select, summary, progress, table, section, [tabindex='0']")) {
    const hasName = element.tagName === "SECTION" ? element.hasAttribute("aria-labelledby") || element.querySelector("h1") : name(element);
    if (shown(element) && !hasName) problems.push(`${where(element)}: has no name`);
    if (Number(element.getAttribute("tabindex")) > 0) problems.push(`${where(element)}: has a tabindex above 0`);
  }
  for (const element of [...document.querySelectorAll("button, input, summary")].filter(shown)) {
    const box = element.getBoundingClientRect();
    if (box.height < 20 || box.width < 20) problems.push(`${where(element)}: is ${box.width} x ${box.height} pixels`);
  }
  for (const image of document.querySelectorAll("svg")) {
    if (image.getAttribute("aria-hidden") !== "true" && !image.getAttribute("aria-label")) problems.push(`${where(image)}: has no name`);
  }
  for (const table of document.querySelectorAll("table")) {
    const heads = table.tHead?.rows[0]?.cells.length;
    if (table.getAttribute("role") !== "table") problems.push(`${where(table)}: its layout takes its role away`);
    for (const row of table.rows) {
      if (row.getAttribute("role") !== "row") problems.push(`${where(row)}: its layout takes its role away`);
      if (row.cells.length !== heads) problems.push(`${where(row)}: has ${row.cells.length} cells below ${heads} headers`);
      for (const cell of row.cells) if (!cell.getAttribute("role")) problems.push(`${where(cell)}: has no role`);
    }
  }

  // Contrast of each text with what is behind it.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0.99) return colour;
    }
    return [255, 255, 255, 1];
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !shown(element) || element.closest("script, style, button:disabled")) continue;
    const style = getComputedStyle(element);
    const [front, back] = [luminance(rgba(style.color)), luminance(behind(element))];
    const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const key = `${where(element)} ${style.color}`;
    if (contrast < 4.5 && !seen.has(key)) problems.push(`${where(element)}: contrast ${contrast.toFixed(2)} of ${style.color}`);
    seen.add(key);
  }
  return problems;
}
