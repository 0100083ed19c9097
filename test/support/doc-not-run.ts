/** The code of the documentation that no test runs, each with the reason. */
import type { CodeBlock } from './doc-pages.ts';

interface Exception {
  readonly page: string;
  /** What the code begins with. */
  readonly begins: string;
  readonly reason: string;
}

const exceptions: readonly Exception[] = [
  {
    page: 'README.md',
    begins: 'npm ci && npm start',
    reason: 'the test has installed what there is, and starts the service itself, on free ports',
  },
  {
    page: 'README.md',
    begins: 'npm ci && npm test',
    reason: 'the test would run itself',
  },
  {
    page: 'docs/reference/metrics.md',
    begins: 'scrape_configs:',
    reason: 'Prometheus is not there to take it; what it would read is checked',
  },
  {
    page: 'docs/quickstart.md',
    begins: 'npm ci && npm start',
    reason: 'the test has installed what there is, and starts the service itself, on free ports',
  },
  {
    page: 'docs/guides/production.md',
    begins: 'useradd --system',
    reason: 'changes the machine; the unit and the settings that follow are checked',
  },
  {
    page: 'docs/guides/spam.md',
    begins: 'curl -sv smtp:',
    reason: 'needs Rspamd; test/servers/rspamd.test.ts has the same message refused',
  },
  {
    page: 'docs/guides/production.md',
    begins: 'npm pack',
    reason: 'changes the machine; test/servers/package.test.ts does it in a folder',
  },
  {
    page: 'docs/guides/production.md',
    begins: 'cp deploy/systemd/postroom.service',
    reason: 'changes the machine; the unit is checked',
  },
  {
    page: 'docs/guides/production.md',
    begins: 'ln -s /etc/postroom.env',
    reason: 'changes the machine',
  },
  {
    page: 'docs/guides/production.md',
    begins: '#!/bin/sh',
    reason: 'changes the machine; what it calls is of coreutils',
  },
  {
    page: 'docs/guides/production.md',
    begins: 'install -d -o postroom -m 700 /var/backups',
    reason: 'changes the machine; another sample of the page makes a backup',
  },
  {
    page: 'docs/guides/production.md',
    begins: 'systemctl stop postroom',
    reason: 'changes the machine; another sample of the page restores one',
  },
  {
    page: 'docs/guides/production.md',
    begins: 'docker compose',
    reason: 'needs Docker and images from a registry; what the Dockerfile copies is checked',
  },
  {
    page: 'docs/guides/production.md',
    begins: 'git clone <the repository> /opt/postroom.new',
    reason: 'changes the machine',
  },
  {
    page: 'docs/guides/sizing.md',
    begins: 'node_modules/.bin/node bench/sizing.ts',
    reason: 'measures for minutes, in a clone',
  },
  {
    page: 'docs/guides/several-nodes.md',
    begins: './postroom move --to',
    reason: 'needs a database and a bucket; test/servers/move.test.ts runs it',
  },
  {
    page: 'docs/guides/several-nodes.md',
    begins: './postroom move --bodies s3',
    reason: 'needs a bucket; test/servers/s3-service.test.ts runs it',
  },
  {
    page: 'docs/guides/several-nodes.md',
    begins: 'mkdir -p /etc/systemd',
    reason: 'changes the machine',
  },
  {
    page: 'docs/guides/several-nodes.md',
    begins: 'cd /opt/postroom && runuser',
    reason:
      'changes the machine; test/servers/two-machines.test.ts starts the nodes with the files above',
  },
  {
    page: 'docs/guides/several-nodes.md',
    begins: 'haproxy -c -f',
    reason:
      'changes the machine; test/servers/two-machines.test.ts starts HAProxy with the file above',
  },
  {
    page: 'docs/reference/program.md',
    begins: './postroom rotate',
    reason: 'the service has to be restarted in between; test/journeys/program.test.ts runs it',
  },
  {
    page: 'docs/guides/webhooks.md',
    begins: 'OUTBOUND_ALLOW_CIDRS=127.0.0.0/8 npm start',
    reason: 'the test starts the service with this setting for the page',
  },
  {
    page: 'docs/guides/inbox-client.md',
    begins: '   hello, events',
    reason: 'a picture',
  },
];

/** Blocks that a suite of their own runs, in place of the samples' one; it looks that none is left out. */
export const ownSuites: Readonly<Record<string, string>> = {
  'docs/guides/imap-server.md': 'imap-guide',
};

/** Why a block is not run with the samples; undefined where it has to be. */
export function notRun(page: string, { text }: CodeBlock): string | undefined {
  return exceptionOf(page, text) ?? (ownSuites[page] && `${ownSuites[page]}.test.ts runs it`);
}

/** Why no test at all runs a block. */
export function exceptionOf(page: string, text: string): string | undefined {
  return exceptions.find((one) => one.page === page && text.startsWith(one.begins))?.reason;
}

/** The exceptions that no page has any more. */
export function idleExceptions(
  pages: readonly { readonly path: string; readonly blocks: readonly CodeBlock[] }[],
): string[] {
  return exceptions
    .filter(
      ({ page, begins }) =>
        !pages.some(
          ({ path, blocks }) => path === page && blocks.some(({ text }) => text.startsWith(begins)),
        ),
    )
    .map(({ page, begins }) => `${page}: ${begins}`);
}
