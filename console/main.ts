/** The operator's console: one page whose screens are chosen by its path below `/console`. */
import { createApp } from 'vue';
import { findSession } from './api/client.ts';
import { router } from './router.ts';
import { Shell } from './shell.tsx';
import 'uplot/dist/uPlot.min.css';
import './styles/base.css';
import './styles/shell.css';
import './styles/parts.css';
import './styles/table.css';
import './styles/screens.css';

// Where nobody is signed in, the router leads to the sign-in.
await findSession().catch(() => undefined);
createApp(Shell).use(router).mount('#console');
