/** The webmail: one page below `/webmail`, which talks to the service through the SDK alone. */
import { createApp } from 'vue';
import { Shell } from './shell.tsx';
import { openKept } from './state/accounts.ts';
import { followTheme } from './state/brand.ts';
import '../../console/styles/base.css';
import './styles/base.css';
import './styles/overlay.css';
import './styles/shell.css';
import './styles/screens.css';
import './styles/list.css';
import './styles/thread.css';

followTheme();
await openKept();
createApp(Shell).mount('#webmail');
