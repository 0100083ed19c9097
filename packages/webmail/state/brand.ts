/** The name and the colour that the operator gave the webmail (WEBMAIL_NAME, WEBMAIL_COLOR), and whether it is dark. */
import { computed, ref, watchEffect } from 'vue';
import { theme } from './remembered.ts';

/** As the service wrote it into the page. */
function read(name: string): string | undefined {
  return document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content || undefined;
}

export const brand = { name: read('webmail-name') ?? 'Mail' };

/** Whether a media query is true now. */
function matches(query: string) {
  const media = matchMedia(query);
  const isSo = ref(media.matches);
  media.addEventListener('change', () => {
    isSo.value = media.matches;
  });
  return isSo;
}

const isSystemDark = matches('(prefers-color-scheme: dark)');
const isPrinted = matches('print');

/** As the system has it, or as chosen here. */
export const isDark = computed(
  () => theme.value === 'dark' || (theme.value === 'system' && isSystemDark.value),
);

/** Relative luminance (WCAG 2.2). */
function luminance(hex: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Contrast of 4.5 to white: what is lighter gets dark letters. */
const LIGHT = 0.183;

/** Shows the page light or dark, with the operator's colour, readable in both. */
export function followTheme(): void {
  const color = read('webmail-color');
  const { classList, style } = document.documentElement;
  const follow = () => {
    // Browsers leave out the background on paper.
    const isNight = isDark.value && !isPrinted.value;
    classList.toggle('dark', isNight);
    if (color === undefined) return;
    style.setProperty('--button', color);
    style.setProperty('--button-strong', `color-mix(in oklab, ${color} 85%, black)`);
    style.setProperty('--on-button', luminance(color) > LIGHT ? '#16171a' : '#fff');
    const share = Math.max(35, 100 - Math.max(0, luminance(color) - LIGHT) * 100);
    const text = isNight ? '45%, white' : `${share}%, black`;
    style.setProperty('--action', `color-mix(in oklab, ${color} ${text})`);
  };
  // The browser prints as soon as it has told.
  watchEffect(follow, { flush: 'sync' });
}
