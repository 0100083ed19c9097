/** How the SDK says who it is: the server's operator then knows whose requests these are. */

/** As in package.json; a test compares them. */
export const VERSION = '0.1.0-dev';

/**
 * The header of every request: `user-agent: crm/2.1 postroom-sdk/0.1.0 node/24.21.0`; in a browser, the same without the
 * runtime as `x-postroom-client`.
 *
 * @param app name and version of the program, such as `crm/2.1`
 */
export function clientHeaders(app?: string): Record<string, string> {
  const name = [app, `postroom-sdk/${VERSION}`].filter(Boolean).join(' ');
  const runtime = runtimeName();
  // Browsers keep User-Agent to themselves.
  return runtime ? { 'user-agent': `${name} ${runtime}` } : { 'x-postroom-client': name };
}

/** `node/24.21.0`, and the like of others that run on servers. */
function runtimeName(): string | undefined {
  const { process } = globalThis as { process?: { versions?: Record<string, string> } };
  // Deno and Bun also say which Node they are like.
  const found = ['deno', 'bun', 'node'].find((name) => process?.versions?.[name]);
  return found && `${found}/${process?.versions?.[found]}`;
}
