/** Messages that benchmarks send and store. */
import { randomBytes } from 'node:crypto';

const LINE = 76;

export function smallMessage(subject: string): Buffer {
  return Buffer.from(
    `From: Bob <bob@sender.test>\r\nTo: Ann <ann@bench.test>\r\nSubject: ${subject}\r\n` +
      `Date: Mon, 5 Jan 2026 10:00:00 +0000\r\nMessage-ID: <${subject.replace(/\W/g, '.')}@sender.test>\r\n` +
      'MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nHello, Ann.\r\n',
  );
}

/**
 * A message as people send them: text, HTML and an attachment in base64.
 *
 * @param attachment octets of the attachment before base64
 */
export function messageWithAttachment(attachment: number): Buffer {
  const content = randomBytes(attachment).toString('base64');
  const text = 'The quick brown fox jumps over the lazy dog, again and again.\r\n'.repeat(20);
  const html = '<p>The quick brown fox <b>jumps</b> over the lazy dog.</p>\r\n'.repeat(40);
  const lines = [
    'Received: from relay.sender.test (relay.sender.test [192.0.2.7]) by mx.sender.test with ESMTPS',
    '\tid 4fXyZ12345; Mon, 5 Jan 2026 10:00:00 +0000',
    'DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=sender.test; s=key1;',
    '\th=from:to:subject:date:message-id; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;',
    `\tb=${'QWxhZGRpbjpvcGVuIHNlc2FtZQ'.repeat(8)}`,
    'From: =?utf-8?q?Bob_B=C3=BCcher?= <bob@sender.test>',
    'To: Ann <ann@bench.test>, "Example, Carol" <carol@other.test>',
    'Cc: dan@other.test',
    'Subject: =?utf-8?q?Your_invoice_for_January_=E2=80=93_with_a_longer_subject?=',
    'Date: Mon, 5 Jan 2026 10:00:00 +0000',
    'Message-ID: <20260105100000.4711@sender.test>',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="=_outer"',
    '',
    '--=_outer',
    'Content-Type: multipart/alternative; boundary="=_inner"',
    '',
    '--=_inner',
    'Content-Type: text/plain; charset=utf-8',
    '',
    text,
    '--=_inner',
    'Content-Type: text/html; charset=utf-8',
    'Content-Transfer-Encoding: quoted-printable',
    '',
    html,
    '--=_inner--',
    '--=_outer',
    'Content-Type: application/pdf; name="invoice.pdf"',
    'Content-Disposition: attachment; filename="invoice.pdf"',
    'Content-Transfer-Encoding: base64',
    '',
    ...(content.match(new RegExp(`.{1,${LINE}}`, 'g')) ?? []),
    '--=_outer--',
    '',
  ];
  return Buffer.from(lines.join('\r\n'));
}

/** Part number of the attachment in {@link messageWithAttachment}. */
export const ATTACHMENT_PART = '2';

/** A message of about 20 KB. */
export function message20K(): Buffer {
  return messageWithAttachment(11_000);
}
