/** The webmail: one page below `/webmail`, which talks to the service through the SDK alone. */
import { createApp } from 'vue';
import { Shell } from './shell.tsx';
import '../../console/styles/base.css';
import './styles/base.css';
import './styles/overlay.css';

createApp(Shell).mount('#webmail');
