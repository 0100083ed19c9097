/** How the console is built: `docs/.vitepress/build.ts` runs it. */
import { defineConfig } from 'vite';
import { appConfig } from './app-config.ts';

export default defineConfig(appConfig('/console/'));
