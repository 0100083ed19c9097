/**
 * uPlot asks Intl for the language of the browser while it is loaded. WebKitGTK names its locale there: of `LANG=C` that is
 * "C", which is no language (BCP 47). Intl throws then, and the page stayed blank.
 */
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en' });
}
