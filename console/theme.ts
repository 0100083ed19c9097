/** Light or dark: as the system has it, or as chosen here. */
import { computed, ref, watchEffect } from 'vue';

const STORED = 'postroom-console-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const isSystemDark = ref(system.matches);
system.addEventListener('change', ({ matches }) => {
  isSystemDark.value = matches;
});

/** The choices and their labels. */
export const themes = [
  ['system', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const;

export const theme = ref(localStorage.getItem(STORED) ?? 'system');

export const isDark = computed(
  () => theme.value === 'dark' || (theme.value === 'system' && isSystemDark.value),
);

watchEffect(
  () => {
    document.documentElement.classList.toggle('dark', isDark.value);
    if (theme.value === 'system') localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, theme.value);
  },
  { flush: 'sync' },
);
