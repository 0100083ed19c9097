/** The service with the documentation as `npm run docs:build` made it, and the pages in it. */
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { listFiles } from '../../../docs/.vitepress/finish-pages.ts';
import { startTestService, type TestService } from '../../support/service.ts';

const directory = fileURLToPath(new URL('../../../site', import.meta.url));

/** Paths of all pages; console and webmail are none of them. */
export function listPages(): string[] {
  return listFiles(directory)
    .filter((name) => name.endsWith('.html') && name !== '404.html')
    .filter((name) => !/^(?:console|webmail)\//.test(name))
    .map((name) => `/docs/${name.replace(/(?:\/?index)?\.html$/, '')}`.replace(/\/$/, ''));
}

export interface SiteService extends TestService {
  /** Paths of all pages. */
  readonly pages: readonly string[];
}

/** Starts a service, which shows the site, and lists its pages. */
export async function startSiteService(
  environment: Record<string, string> = {},
): Promise<SiteService> {
  const service = await startTestService('sqlite', environment);
  return { ...service, pages: listPages() };
}

/** Waits until the scripts of a page have run: a click before that is lost, where it is not on a link. */
export async function ready(page: Page): Promise<void> {
  // The switch between light and dark is named then.
  await page.waitForSelector('.VPSwitchAppearance:not([title=""])', { state: 'attached' });
}
