/**
 * What each entry point of the SDK exports, read from its declarations (`dist/**.d.ts`). The compiler writes these in
 * one form: a declaration begins at the start of a line, with its docstring before it, and ends with `}` or `;` there.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface Declaration {
  readonly name: string;
  /** Without its marks; empty where it has none. */
  readonly docs: string;
  readonly code: string;
}

export interface EntryPoint {
  /** `@postroom/sdk/mail` */
  readonly name: string;
  /** The first docstring of its file. */
  readonly docs: string;
  readonly declarations: readonly Declaration[];
  /** Whether it also exports the types of the API, which `docs/openapi.json` describes. */
  readonly hasApiTypes: boolean;
}

/** The entry points that package.json names. @param folder of the package, built */
export function readEntryPoints(folder: string): EntryPoint[] {
  const { name, exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly name: string;
    readonly exports: Readonly<Record<string, string | { readonly types: string }>>;
  };
  return Object.entries(exports).flatMap(([path, target]) => {
    if (typeof target === 'string') return [];
    return [readEntryPoint(name + path.slice(1), join(folder, target.types))];
  });
}

function readEntryPoint(name: string, file: string): EntryPoint {
  const text = readFileSync(file, 'utf8');
  const own = readDeclarations(text);
  const [, api] = /^import type \{[^}]*\} from '(\.[^']*\/api-types\.js)';$/m.exec(text) ?? [];
  const declarations = own.filter(({ code }) => code.startsWith('export '));
  const reexports = /^export (?:type )?\{([^}]*)\}(?: from '(\.[^']*)')?;$/gm;
  for (const [, names = '', from] of text.matchAll(reexports)) {
    // What is imported here is a type of the API.
    const path = from ?? api;
    const imported =
      path === undefined ? [] : readDeclarations(readFileSync(declarationsAt(file, path), 'utf8'));
    const found = from === undefined ? [...own, ...imported] : imported;
    for (const exported of names.split(',').map((one) => one.trim().replace(/^type /, ''))) {
      if (exported === '') continue;
      const declaration = found.find((one) => one.name === exported);
      if (!declaration) throw new Error(`${file}: there is no declaration of ${exported}`);
      declarations.push(declaration);
    }
  }
  let hasApiTypes = false;
  for (const [, path = ''] of text.matchAll(/^export (?:type )?\* from '([^']*)';$/gm)) {
    if (path.endsWith('/api-types.js')) hasApiTypes = true;
    else declarations.push(...readEntryPoint(name, declarationsAt(file, path)).declarations);
  }
  return { name, docs: readDocs(/^\/\*\*.*?\*\//s.exec(text)?.[0]), declarations, hasApiTypes };
}

function declarationsAt(file: string, path: string): string {
  return join(dirname(file), path.replace(/\.js$/, '.d.ts'));
}

const BEGIN = /^(?:export )?(?:declare )?(?:abstract )?(interface|type|class|function|const) (\w+)/;

function readDeclarations(text: string): Declaration[] {
  const declarations: Declaration[] = [];
  const lines = text.split('\n');
  for (let at = 0, docs = 0; at < lines.length; at++) {
    if (lines[at]?.startsWith('/**')) docs = at;
    const [, kind, name] = BEGIN.exec(lines[at] ?? '') ?? [];
    if (kind === undefined || name === undefined) continue;
    const begin = at;
    let depth = 0;
    for (; at < lines.length; at++) {
      const line = lines[at] ?? '';
      depth += line.split('{').length - line.split('}').length;
      const isBlock = kind === 'interface' || kind === 'class';
      if (depth === 0 && line.endsWith(isBlock ? '}' : ';')) break;
    }
    const before = lines.slice(docs, begin).join('\n');
    const isOwn = before.startsWith('/**') && before.indexOf('*/') === before.length - 2;
    const code = lines.slice(begin, at + 1).join('\n');
    declarations.push({ name, docs: isOwn ? readDocs(before) : '', code });
  }
  return declarations;
}

function readDocs(comment = ''): string {
  return comment
    .replaceAll(/^\s*(?:\/\*\*| ?\*(?!\/)) ?/gm, '')
    .replaceAll(/\s*\*\/\s*$/g, '')
    .trim();
}
