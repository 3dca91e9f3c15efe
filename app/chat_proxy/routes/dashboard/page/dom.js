// Elements are made here and nowhere else: strings become text nodes, never markup.

export function el(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  if (options.class) made.className = options.class;
  if (options.title) made.title = options.title;
  if (options.type) made.setAttribute("type", options.type);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function chip(text, kind = "", title = "") {
  return el("span", { class: `chip ${kind}`, title }, text);
}

export const byId = (id) => document.getElementById(id);
