/** What stands around everything. */
import { defineComponent } from 'vue';
import { Toasts } from './ui/toasts.tsx';

export const Shell = defineComponent(() => () => (
  <div class="shell">
    <Toasts />
  </div>
));
