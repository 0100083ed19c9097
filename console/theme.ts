/** Light or dark: as the system has it, or as chosen here. */
import { computed, ref, watchEffect } from 'vue';
import { theme } from './remembered.ts';

const system = matchMedia('(prefers-color-scheme: dark)');
const isSystemDark = ref(system.matches);
system.addEventListener('change', ({ matches }) => {
  isSystemDark.value = matches;
});

export const isDark = computed(
  () => theme.value === 'dark' || (theme.value === 'system' && isSystemDark.value),
);

watchEffect(() => document.documentElement.classList.toggle('dark', isDark.value), {
  flush: 'sync',
});
