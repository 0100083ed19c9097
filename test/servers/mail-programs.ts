/** What mail programs of Debian need: a service that they reach by TLS, a folder of their own, and mail to find. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd } from '../support/at-end.ts';
import { makeCertificate } from '../support/certificate.ts';
import { freePort } from '../support/free-port.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

export interface ProgramBench {
  readonly service: TestService;
  /** Removed at the end. */
  readonly folder: string;
  /** For `localhost`: programs compare the name. */
  readonly certificate: string;
  readonly imapsPort: string;
  /** Puts messages into INBOX, each with its subject as its text. */
  append(account: TestAccount, subjects: readonly string[]): Promise<void>;
}

export async function startForPrograms(): Promise<ProgramBench> {
  const folder = await mkdtemp(join(tmpdir(), 'postroom-programs-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  const tls = await makeCertificate(folder);
  const imapsPort = String(await freePort());
  const service = await startTestService('sqlite', { IMAPS_PORT: imapsPort, ...tls });
  return {
    service,
    folder,
    certificate: tls.TLS_CERT,
    imapsPort,
    async append(account, subjects) {
      for (const subject of subjects) {
        const url = `${service.url}/mail/append?mailbox=INBOX`;
        const headers = {
          authorization: `Bearer ${account.token}`,
          'content-type': 'message/rfc822',
        };
        const body = `From: b@b.test\r\nSubject: ${subject}\r\nMessage-ID: <${subject}@b.test>\r\n\r\n${subject}\r\n`;
        assert.equal((await fetch(url, { method: 'POST', headers, body })).status, 201);
      }
    },
  };
}
