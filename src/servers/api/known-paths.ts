/** The existing paths, for the answer to an unknown one. */
import type { Api } from './route-tools.ts';
import { plainName } from './spellings.ts';

/** The most paths that one answer names. */
const NAMED_MAX = 12;
const ALL = '/docs/reference/api lists all paths';

interface KnownPath {
  /** `GET /mail/message`. */
  readonly name: string;
  readonly segments: readonly string[];
}

/**
 * Collects the routes that are registered after it and are in the API description.
 *
 * @returns names the paths at or below an unknown path, as the end of a sentence
 */
export function collectPaths(app: Api): (path: string) => string {
  const known: KnownPath[] = [];
  app.addHook('onRoute', ({ method, url, schema }) => {
    if (!schema?.operationId || method === 'HEAD') return;
    known.push({ name: `${String(method)} ${url}`, segments: segmentsOf(url) });
  });
  return (path) => {
    const asked = segmentsOf(path);
    const shared = known.map((one) => ({ ...one, length: sharedLength(one.segments, asked) }));
    const longest = Math.max(...shared.map(({ length }) => length));
    if (longest === 0) return ALL;
    const alike = shared.filter(({ length }) => length === longest);
    const meant = alike.filter(({ segments }) => segments.length === asked.length);
    if (longest === asked.length && meant.length > 0)
      return `did you mean ${namesOf(meant, ' or ')}?`;
    const more = alike.length > NAMED_MAX ? `; ${ALL}` : '';
    return `there are ${namesOf(alike.slice(0, NAMED_MAX), ', ')}${more}`;
  };
}

function segmentsOf(path: string): string[] {
  return path.split('/').filter((segment) => segment !== '');
}

function namesOf(paths: readonly KnownPath[], between: string): string {
  return paths.map(({ name }) => name).join(between);
}

/** How many segments at the start of a path are those of a route, in any spelling. */
function sharedLength(route: readonly string[], asked: readonly string[]): number {
  const end = route.findIndex((segment, at) => {
    const given = asked[at];
    return (
      given === undefined || !(segment.startsWith(':') || plainName(given) === plainName(segment))
    );
  });
  return end === -1 ? route.length : end;
}
