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

// A page that the browser keeps for its way back shows nothing of a session that may have ended, and is loaded anew.
addEventListener('pagehide', ({ persisted }) => {
  document.body.hidden = persisted;
});
addEventListener('pageshow', ({ persisted }) => persisted && location.reload());

await waitForService('#console');
createApp(Shell).use(router).mount('#console');
