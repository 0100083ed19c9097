/** The webmail: one page below `/webmail`, which talks to the service through the SDK alone. */
import { createApp } from 'vue';
import { Shell } from './shell.tsx';
import { openKept } from './state/accounts.ts';
import { followTheme } from './state/brand.ts';
import { reasonOf } from './ui/format.ts';
import { Failure } from './ui/loaded.tsx';
import '../../console/styles/base.css';
import './styles/base.css';
import './styles/overlay.css';
import './styles/shell.css';
import './styles/list.css';
import './styles/thread.css';

// A browser shows a file that is dropped on a page in place of the page.
for (const name of ['dragover', 'drop'] as const)
  addEventListener(name, (event) => {
    if (event.dataTransfer?.types.includes('Files')) event.preventDefault();
  });

followTheme();
try {
  await openKept();
  createApp(Shell).mount('#webmail');
} catch (error) {
  // A browser that keeps nothing of a site throws where it is asked which logins it has.
  createApp(Failure, {
    text: `The webmail cannot start: ${reasonOf(error)} It needs cookies and site data, which the browser may block.`,
  }).mount('#webmail');
}
