/** The operator's console: one page whose screens are chosen by its path below `/console`. */
import { createApp } from 'vue';
import { router } from './router.ts';
import { Shell } from './shell.tsx';
import { waitForService } from './wait-for-service.tsx';
import 'uplot/dist/uPlot.min.css';
import './styles/base.css';
import './styles/shell.css';
import './styles/parts.css';
import './styles/table.css';
import './styles/screens.css';

await waitForService('#console');
createApp(Shell).use(router).mount('#console');
