/** The files of deploy/ for several nodes, each held against what reads it; nothing of it is started. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseAllDocuments, parse as parseYaml } from 'yaml';
import { configKeys, readConfig } from '../../src/run/config/config.ts';

const read = (name: string) =>
  readFileSync(new URL(`../../deploy/${name}`, import.meta.url), 'utf8');

// biome-ignore lint/suspicious/noExplicitAny: manifests have many shapes; their schemas are checked
type Manifest = Record<string, any>;

const manifests = parseAllDocuments(read('kubernetes/postroom.yaml')).map(
  (document): Manifest => document.toJS(),
);
const find = (kind: string): Manifest => {
  const found = manifests.find((manifest) => manifest.kind === kind);
  assert.ok(found, kind);
  return found;
};

/** Settings are known ones, and such that several nodes need. */
function checkSettings(environment: Record<string, string>): void {
  for (const key of Object.keys(environment)) assert.ok(configKeys.includes(key), key);
  const { drainSeconds } = readConfig(environment, '/');
  assert.ok(drainSeconds > 0);
  for (const key of ['DATABASE_URL', 'REDIS_URL', 'S3_URL']) assert.ok(environment[key], key);
}

test('the manifests fit the schemas of Kubernetes', async () => {
  assert.ok(manifests.length >= 6);
  for (const manifest of manifests) {
    const kinds = await import(`kubernetes-models/${manifest.apiVersion}`);
    assert.ok(kinds[manifest.kind], manifest.kind);
    new kinds[manifest.kind](manifest).validate();
  }
});

test('the manifests name each other, and leave time for the drain', () => {
  const secret = find('Secret').stringData;
  const settings = { ...secret, ...find('ConfigMap').data };
  checkSettings(settings);
  const { spec } = find('Deployment');
  const { containers, terminationGracePeriodSeconds } = spec.template.spec;
  assert.ok(terminationGracePeriodSeconds > Number(settings.DRAIN_SECONDS) + 10);
  const [container] = containers;
  const sources = container.envFrom.map(
    (from: Manifest) => (from.secretRef ?? from.configMapRef).name,
  );
  assert.deepEqual(sources, [find('Secret').metadata.name, find('ConfigMap').metadata.name]);
  const ports = container.ports.map(({ name }: Manifest) => name);
  for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
    assert.ok(ports.includes(container[probe].httpGet.port), probe);
  }
  const { periodSeconds, failureThreshold } = container.startupProbe;
  assert.ok(periodSeconds * failureThreshold >= 1_800, 'a migration is not cut short');
  const metrics = container.ports.find(({ name }: Manifest) => name === 'metrics');
  assert.equal(String(metrics?.containerPort), settings.METRICS_PORT);
  assert.equal(container.readinessProbe.httpGet.path, '/readyz');
  assert.equal(container.livenessProbe.httpGet.path, '/healthz');
  const { labels } = spec.template.metadata;
  assert.deepEqual(spec.selector.matchLabels, labels);
  assert.deepEqual(find('PodDisruptionBudget').spec.selector.matchLabels, labels);
  for (const service of manifests.filter(({ kind }) => kind === 'Service')) {
    assert.deepEqual(service.spec.selector, labels);
    for (const { targetPort } of service.spec.ports) assert.ok(ports.includes(targetPort));
  }
});

test('the compose file has what the balancer names, and leaves time for the drain', () => {
  const { services } = parseYaml(read('several-nodes/compose.yaml'), { merge: true });
  const nodes = ['node1', 'node2'];
  for (const name of nodes) {
    const { environment, stop_grace_period, depends_on } = services[name];
    const text = Object.fromEntries(
      Object.entries(environment).map(([key, value]) => [key, String(value)]),
    );
    checkSettings(text);
    assert.ok(Number.parseInt(stop_grace_period, 10) > environment.DRAIN_SECONDS + 10);
    for (const other of Object.keys(depends_on)) assert.ok(services[other], other);
    for (const key of ['DATABASE_URL', 'REDIS_URL', 'S3_URL']) {
      assert.ok(services[new URL(text[key] ?? '').hostname], key);
    }
    const { hostname, username, password, pathname } = new URL(text.S3_URL ?? '');
    const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, S3_BUCKET } = services[hostname].environment;
    assert.deepEqual(
      [username, password, pathname],
      [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, `/${S3_BUCKET}`],
    );
  }
  const balancer = read('several-nodes/haproxy.cfg');
  // A reverse proxy before it names the client; a container that is made anew has another address.
  assert.match(balancer, /^ {4}option forwardfor$/m);
  assert.doesNotMatch(balancer, /set-header X-Forwarded-For/);
  assert.match(balancer, /^ {4}default-server .* resolvers docker init-addr last,libc,none$/m);
  const servers = balancer.matchAll(/^ {4}server (\S+) (\S+):(\d+)$/gm);
  const named = [...servers].map(([, , host, port]) => `${host}:${port}`);
  assert.deepEqual(
    named,
    ['8080', '2525'].flatMap((port) => nodes.map((node) => `${node}:${port}`)),
  );
});
