/** Mail programs find their settings: Thunderbird's, Outlook's and Apple's files, and the SRV records of a domain. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { startTestService, type TestService } from '../support/service.ts';

onEachEngine('settings of mail programs', (engine) => {
  let service: TestService;
  let imaps: number;
  let submission: number;
  before(async () => {
    const ports = {
      IMAPS_PORT: String(await freePort()),
      SUBMISSION_PORT: String(await freePort()),
    };
    const names = { MAIL_HOSTNAME: 'mail.host.test', PUBLIC_URL: 'https://post.host.test' };
    service = await startTestService(engine, { ...ports, ...names });
    imaps = service.addresses.imaps?.port ?? 0;
    submission = service.addresses.submission?.port ?? 0;
  });

  async function read(path: string, init: RequestInit = {}) {
    const answer = await fetch(service.url + path, init);
    return {
      status: answer.status,
      type: answer.headers.get('content-type'),
      text: await answer.text(),
    };
  }

  test('Thunderbird gets one answer for every address', async () => {
    const ada = await service.makeAccount('ada');
    const path = '/.well-known/autoconfig/mail/config-v1.1.xml';
    const known = await read(`${path}?emailaddress=${encodeURIComponent(ada.address)}`);
    assert.equal(known.status, 200);
    assert.match(known.type ?? '', /^application\/xml/);
    assert.match(
      known.text,
      new RegExp(
        `<hostname>mail.host.test</hostname>\\s+<port>${imaps}</port>\\s+<socketType>SSL<`,
      ),
    );
    assert.match(known.text, new RegExp(`<port>${submission}</port>\\s+<socketType>STARTTLS<`));
    assert.match(known.text, /<username>%EMAILADDRESS%</);
    assert.match(known.text, new RegExp(`<domain>${ada.domain}</domain>`));
    const unknown = `nobody@${ada.domain}`;
    assert.equal((await read(`/mail/config-v1.1.xml?emailaddress=${unknown}`)).text, known.text);
    assert.match((await read(path)).text, /<domain>%EMAILDOMAIN%<\/domain>/);
    const hostile = encodeURIComponent('a@b.test"><x>&<!ENTITY y "z">');
    assert.doesNotMatch((await read(`${path}?emailaddress=${hostile}`)).text, /<x>|ENTITY/);
  });

  test('Outlook finds its file in any case, and nothing in it but the address that it gave', async () => {
    const request = (address: string) => ({
      method: 'POST',
      headers: { 'content-type': 'text/xml' },
      body: `<Autodiscover><Request><EMailAddress>${address}</EMailAddress></Request></Autodiscover>`,
    });
    for (const path of ['/autodiscover/autodiscover.xml', '/AutoDiscover/AUTODISCOVER.XML']) {
      const { status, text } = await read(path, request('any@where.test'));
      assert.equal(status, 200);
      assert.match(text, /<LoginName>any@where.test</);
      assert.match(
        text,
        new RegExp(`<Type>IMAP</Type>\\s+<Server>mail.host.test</Server>\\s+<Port>${imaps}<`),
      );
      assert.match(
        text,
        new RegExp(`<Type>SMTP</Type>\\s+<Server>mail.host.test</Server>\\s+<Port>${submission}<`),
      );
    }
    const hostile = await read('/autodiscover/autodiscover.xml', request('a@b&lt;.test'));
    assert.doesNotMatch(hostile.text, /LoginName/);
    const large = await read('/autodiscover/autodiscover.xml', request('a'.repeat(20_000)));
    assert.equal(large.status, 413);
    const json = await read(
      '/Autodiscover/Autodiscover.json?Email=a@b.test&Protocol=AutoDiscoverV1',
    );
    assert.deepEqual(JSON.parse(json.text), {
      Protocol: 'AutodiscoverV1',
      Url: 'https://post.host.test/autodiscover/autodiscover.xml',
    });
    const v1 = '/autodiscover/autodiscover.json/v1.0/a@b.test';
    assert.equal((await read(`${v1}?Protocol=AutodiscoverV1`)).status, 200);
    assert.equal((await read(`${v1}?Protocol=ActiveSync`)).status, 400);
    assert.equal((await read('/autodiscover/other.xml')).status, 404);
  });

  test('a product gets the profile of its own account, without a password', async () => {
    const ada = await service.makeAccount('ada');
    const path = `/v2/email-accounts/${ada.id}/mobileconfig`;
    const { status, headers, body } = await service.v2('GET', `${path}?user_id=${ada.userId}`);
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'application/x-apple-aspen-config');
    assert.match(body, new RegExp(`<key>EmailAddress</key>\\s+<string>${ada.address}</string>`));
    assert.match(body, new RegExp(`<key>IncomingMailServerPortNumber</key>\\s+<integer>${imaps}<`));
    assert.doesNotMatch(body, /<key>\w*Password<\/key>\s+<string>/);
    assert.equal(
      (await service.v2('GET', `${path}?user_id=another`)).body.code,
      'account_not_found',
    );
  });

  test('SRV records stand beside those of a domain', async () => {
    const ada = await service.makeAccount('ada');
    const query = `user_id=${ada.userId}`;
    const path = `/v2/domains/${ada.domain}/client-settings?${query}`;
    const { body } = await service.v2('GET', path);
    const host = 'mail.host.test';
    assert.deepEqual(body.imap, [{ host, port: imaps, security: 'tls' }]);
    assert.deepEqual(body.smtp, [{ host, port: submission, security: 'starttls' }]);
    assert.deepEqual(
      body.srv.map((one: Record<string, string>) => [one.host, one.value]),
      [
        ['_imaps._tcp', `0 1 ${imaps} ${host}`],
        ['_submissions._tcp', '0 0 0 .'],
        ['_imap._tcp', '0 0 0 .'],
        ['_submission._tcp', `0 1 ${submission} ${host}`],
        ['_pop3._tcp', '0 0 0 .'],
        ['_pop3s._tcp', '0 0 0 .'],
        ['_autodiscover._tcp', '0 0 443 post.host.test'],
      ],
    );
    const { body: listed } = await service.v2('GET', `/v2/domains/${ada.domain}/dns?${query}`);
    assert.equal(listed.dns.length, 4);
  });
});
