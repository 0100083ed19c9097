/** Whether the page is dark now: the root has the class, whoever chose it. */
import { ref } from 'vue';

const { documentElement } = document;

export const isDark = ref(documentElement.classList.contains('dark'));

new MutationObserver(() => {
  isDark.value = documentElement.classList.contains('dark');
}).observe(documentElement, { attributeFilter: ['class'] });
