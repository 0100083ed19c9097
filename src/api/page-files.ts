/**
 * The files of the live inbox. They are served as they lie in the sources, so that their names say
 * nothing of their content; like the hashed assets of the other pages, one page is two dozen of them.
 */

const INBOX_FILE = /^\/docs\/inbox\/[\w-]{1,64}\.(?:js|css)$/;

/** Whether a URL names a script or a style sheet of the live inbox, which the rate limit leaves out. */
export function isInboxFile(url: string): boolean {
  return INBOX_FILE.test(url.split('?', 1)[0] ?? '');
}
