const _imports_0 = "/docs/pictures/where-is-the-mail.webp";
export {
  _imports_0 as _
};
