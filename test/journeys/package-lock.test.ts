/** What `package-lock.json` has to hold so that `npm ci` installs the same bytes everywhere. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

interface LockedPackage {
  readonly integrity?: string;
  readonly resolved?: string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
  packages: Readonly<Record<string, LockedPackage>>;
};
/** By the folder below node_modules; the entry '' is Postroom itself. */
const locked = Object.entries(packages).filter(([folder]) => folder !== '');

test('every package is locked to a hash of its contents', () => {
  assert.ok(locked.length > 100, `${locked.length} packages`);
  const bare = locked.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'));
  assert.deepEqual(Object.keys(Object.fromEntries(bare)), []);
});

test('no package names the registry it came from, so that any registry can serve it', () => {
  const bound = locked.filter(([, { resolved }]) => resolved !== undefined);
  assert.deepEqual(Object.keys(Object.fromEntries(bound)), []);
});

test('the packages of all platforms are locked, not only those of the one that wrote the file', () => {
  const absent = locked.flatMap(([folder, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) =>
        !(`node_modules/${name}` in packages || `${folder}/node_modules/${name}` in packages),
    ),
  );
  assert.deepEqual(absent, []);
});
