/** How the webmail is built: `docs/.vitepress/build.ts` runs it. */
import { defineConfig } from 'vite';
import { appConfig } from '../../console/app-config.ts';

export default defineConfig(appConfig('/webmail/'));
