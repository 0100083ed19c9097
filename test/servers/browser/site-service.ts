/** The service with the documentation as it is built, and the pages that are in it. */
import { buildSite, defaultSources } from '../../../src/site/site.ts';
import { listFiles } from '../../../src/site/sources.ts';
import { startTestService, type TestService } from '../../support/service.ts';

export interface SiteService extends TestService {
  /** Paths of all pages, the live inbox included. */
  readonly pages: readonly string[];
}

/** Builds the site unless that is done already, and starts a service that shows it. */
export async function startSiteService(
  environment: Record<string, string> = {},
): Promise<SiteService> {
  const directory = await buildSite(defaultSources, defaultSources.builds);
  const service = await startTestService('sqlite', environment);
  const pages = listFiles(directory)
    .filter((name) => name.endsWith('.html') && name !== '404.html')
    .map((name) => `/docs/${name.replace(/(?:\/?index)?\.html$/, '')}`.replace(/\/$/, ''));
  return { ...service, pages };
}
