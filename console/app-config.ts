/** How Vite builds an app of the service: the console, and the webmail. */
import type { UserConfig } from 'vite';

/** @param base the path that it is served at, with a slash at both ends */
export function appConfig(base: string): UserConfig {
  return {
    base,
    // Vue's own JSX runtime: no Babel is needed.
    esbuild: { jsx: 'automatic', jsxImportSource: 'vue' },
    define: {
      __VUE_OPTIONS_API__: 'false',
      __VUE_PROD_DEVTOOLS__: 'false',
      __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: 'false',
    },
    build: {
      target: 'es2022',
      // Those that the guides name: esbuild writes nested rules for the oldest of them.
      cssTarget: ['chrome117', 'edge117', 'firefox125', 'safari17.4'],
      // Everything comes from files: the Content-Security-Policy allows no fonts or styles as data.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      rollupOptions: {
        output: {
          // Names that the service takes for those of files that never change (src/servers/api/docs-files.ts).
          entryFileNames: 'assets/[name].[hash].js',
          chunkFileNames: 'assets/[name].[hash].js',
          assetFileNames: 'assets/[name].[hash][extname]',
        },
      },
    },
  };
}
