/**
 * Colours of code as classes: the highlighter's own are style attributes, which the
 * Content-Security-Policy refuses. `theme/code.css` says what each class looks like.
 */
import { createCssVariablesTheme, type ShikiTransformer, type ThemeRegistration } from 'shiki';

/** Names kinds of tokens in place of colours. */
export const codeTheme: ThemeRegistration = createCssVariablesTheme({
  name: 'postroom',
  variablePrefix: '--tok-',
  fontStyle: false,
});

/** Turns `color:var(--tok-token-keyword)` into `class="tok-keyword"`. */
export const stylesAsClasses: ShikiTransformer = {
  name: 'postroom:styles-as-classes',
  pre(node) {
    delete node.properties.style;
  },
  span(node) {
    const kind = /^color:var\(--tok-(?:token-)?([a-z-]+)\)$/.exec(
      String(node.properties.style ?? ''),
    )?.[1];
    delete node.properties.style;
    if (kind && kind !== 'foreground') this.addClassToHast(node, `tok-${kind}`);
  },
};
