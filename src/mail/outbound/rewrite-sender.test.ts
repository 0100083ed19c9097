import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { parseAddress } from '../../protocols/message/message.ts';
import { SenderRewriting } from './outbound.ts';

const DAY = 86_400_000;
const START = Date.UTC(2026, 5, 15, 12);
const KEY = 'a key of thirty-two octets or more';

let now = START;
const srs = new SenderRewriting({ key: [KEY], now: () => now });

/** Local part and domain, as RCPT gives them. */
function reverse(address: string, change: (local: string) => string = (local) => local) {
  const parsed = parseAddress(address);
  assert.ok(parsed, address);
  return srs.reverse(change(parsed.local), parsed.domain);
}

function at<Result>(time: number, work: () => Result): Result {
  now = time;
  try {
    return work();
  } finally {
    now = START;
  }
}

suite('senders', () => {
  const carried: [sender: string, start: RegExp, original?: string][] = [
    ['ann@example.com', /^SRS0=[A-Z2-7]{8}=[A-Z2-7]{2}=example\.com=ann@acme\.test$/],
    ['Ann.Smith+x@EXAMPLE.com', /=example\.com=Ann\.Smith\+x@/, 'Ann.Smith+x@example.com'],
    ['a=b=c@example.com', /=example\.com=a=b=c@acme\.test$/],
    ['"john smith"@example.com', /^"SRS0=.*=example\.com=john smith"@acme\.test$/],
    ['юзер@example.com', /=example\.com=юзер@acme\.test$/],
    ['ann@bücher.example', /=xn--bcher-kva\.example=ann@/, 'ann@xn--bcher-kva.example'],
    [
      'SRS0=ABCD=XY=example.org=bob@first.example',
      /^SRS1=[A-Z2-7]{8}=first\.example==ABCD=XY=example\.org=bob@acme\.test$/,
    ],
    [
      'srs0+ABCD=XY=a.org=bob@first.example',
      /^SRS1=[A-Z2-7]{8}=first\.example=\+ABCD=XY=a\.org=bob@acme\.test$/,
      'SRS0+ABCD=XY=a.org=bob@first.example',
    ],
    [
      'SRS1=EFGH=first.example==ABCD=XY=a.org=bob@second.example',
      /^SRS1=[A-Z2-7]{8}=first\.example==ABCD=XY=a\.org=bob@acme\.test$/,
      'SRS0=ABCD=XY=a.org=bob@first.example',
    ],
    ['SRS1=EFGH=@second.example', /=second\.example=SRS1=EFGH=@/],
  ];
  for (const [sender, form, original = sender] of carried) {
    test(`${sender} is encoded and found again`, () => {
      const address = srs.forwardAddress(sender, 'acme.test');
      assert.match(address, form);
      assert.deepEqual(reverse(address), { kind: 'original', sender: original });
    });
  }

  const short: [what: string, sender: string][] = [
    [
      'a long bounce address',
      '0100017f8a2b3c4d-6ba7b810-9dad-11d1-80b4-00c04fd430c8-000000@us-east-2.amazonses.com',
    ],
    ['an address literal', 'ann@[192.0.2.1]'],
    ['an angle bracket', '"a<b"@example.com'],
    ['dots in a row', 'a..b@example.com'],
    ['a long SRS0', `SRS0=ABCD=XY=example.org=${'x'.repeat(30)}@first.example`],
    ['no address at all', 'nonsense'],
  ];
  for (const [what, sender] of short) {
    test(`${what} is represented only by its digest`, () => {
      const address = srs.forwardAddress(sender, 'acme.test');
      assert.match(address, /^SRS0=[A-Z2-7]{8}=[A-Z2-7]{2}==[A-Z2-7]{16}@acme\.test$/);
      const digest = srs.digestOf(sender);
      assert.deepEqual(reverse(address), { kind: 'digest', digest });
      assert.deepEqual(
        reverse(address, (local) => local.toLowerCase()),
        { kind: 'digest', digest },
      );
      assert.notEqual(srs.digestOf('another@example.com'), digest);
    });
  }

  test('a local part of 64 octets is accepted, one more is not', () => {
    const longest = 64 - 'SRS0=12345678=12=example.com='.length;
    const fits = srs.forwardAddress(`${'x'.repeat(longest)}@example.com`, 'acme.test');
    assert.equal(parseAddress(fits)?.local.length, 64);
    const long = srs.forwardAddress(`${'x'.repeat(longest + 1)}@example.com`, 'acme.test');
    assert.equal(reverse(long).kind, 'digest');
  });

  test('the null sender stays null, and a sender of the domain is not changed', () => {
    assert.equal(srs.forwardAddress('', 'acme.test'), '');
    assert.equal(srs.forwardAddress('Ann@ACME.test', 'acme.test'), 'Ann@ACME.test');
    const own = srs.forwardAddress('ann@example.com', 'acme.test');
    assert.equal(srs.forwardAddress(own, 'acme.test'), own);
  });

  test('where the domain leaves no room, the sender is null', () => {
    const domain = `${'a.'.repeat(122)}test`;
    assert.equal(srs.forwardAddress('ann@example.com', domain), '');
  });

  test('a message that came back to its first forwarder has a short way back', () => {
    const first = srs.forwardAddress('ann@a.org', 'acme.test');
    const second = srs.forwardAddress(first, 'b.test');
    assert.match(second, /^SRS1=/);
    const third = srs.forwardAddress(second, 'acme.test');
    assert.deepEqual(reverse(third), { kind: 'original', sender: 'ann@a.org' });
  });
});

suite('time', () => {
  const address = srs.forwardAddress('ann@example.com', 'acme.test');
  const ages: [days: number, kind: string][] = [
    [-2, 'forged'],
    [-1, 'original'],
    [0, 'original'],
    [10, 'original'],
    [11, 'expired'],
    [500, 'expired'],
    // The two digits repeat: they stand for another day now.
    [1024, 'forged'],
    [1030, 'forged'],
  ];
  for (const [days, kind] of ages) {
    test(`after ${days} days it is ${kind}`, () => {
      assert.equal(at(START + days * DAY, () => reverse(address)).kind, kind);
    });
  }

  test('a digest expires, too', () => {
    const short = srs.forwardAddress('nonsense', 'acme.test');
    assert.equal(at(START + 11 * DAY, () => reverse(short)).kind, 'expired');
  });
});

suite('forgeries', () => {
  const locals: [local: string, kind: string][] = [
    ['SRS0=AAAAAAAA=AA=example.com=ann', 'forged'],
    ['SRS0=AAAAAAAA=AA==AAAAAAAAAAAAAAAA', 'forged'],
    ['srs1=AAAAAAAA=example.com==x', 'forged'],
    ['SRS0=', 'forged'],
    ['SRS0+ann', 'forged'],
    ['SRS1-ann', 'forged'],
    ['SRS0=AAAAAAAA=A1=example.com=ann', 'forged'],
    ['srs', 'not_srs'],
    ['SRS2=x', 'not_srs'],
    ['SRS0', 'not_srs'],
    ['ann', 'not_srs'],
    ['', 'not_srs'],
  ];
  for (const [local, kind] of locals) {
    test(`${local} is ${kind}`, () => assert.deepEqual(srs.reverse(local, 'acme.test'), { kind }));
  }

  test('an address of one domain is not one of another, nor one of another key', () => {
    const address = srs.forwardAddress('ann@example.com', 'acme.test');
    const { local } = parseAddress(address) ?? { local: '' };
    assert.equal(srs.reverse(local, 'b.test').kind, 'forged');
    const other = new SenderRewriting({ key: [`${KEY}!`], now: () => START });
    assert.equal(other.reverse(local, 'acme.test').kind, 'forged');
  });

  test('can be read with each value of the key, and is made with the first', () => {
    const both = new SenderRewriting({
      key: ['new', KEY],
      now: () => now,
    });
    const localOf = (senders: SenderRewriting) =>
      parseAddress(senders.forwardAddress('ann@example.com', 'acme.test'))?.local ?? '';
    assert.equal(both.reverse(localOf(srs), 'acme.test').kind, 'original');
    assert.equal(srs.reverse(localOf(both), 'acme.test').kind, 'forged');
    assert.equal(both.reverse(localOf(both), 'acme.test').kind, 'original');
  });
});

const domain = fc
  .tuple(fc.stringMatching(/^[a-z]{1,12}$/), fc.constantFrom('com', 'test', 'co.uk'))
  .map((labels) => labels.join('.'));
const local = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9!#$%&'*+=?^_`{|}~-]{1,40}$/),
  fc.stringMatching(/^SRS[01][-+=][A-Za-z0-9=.-]{1,40}$/).filter((text) => !/\.\.|\.$/.test(text)),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 }),
);
const senders = fc.oneof(
  fc.tuple(local, domain).map(([left, right]) => `${left}@${right}`),
  fc.string({ maxLength: 300 }),
);

suite('properties', () => {
  test('every sender becomes a valid SMTP address, and is read back from it', () => {
    fc.assert(
      fc.property(senders, domain, (sender, forwarder) => {
        const address = srs.forwardAddress(sender, forwarder);
        const before = parseAddress(sender);
        if (sender === '' || before?.domain === forwarder) return address === sender;
        const parsed = parseAddress(address);
        assert.ok(parsed && parsed.domain === forwarder, address);
        assert.ok(Buffer.byteLength(address.slice(0, -forwarder.length - 1)) <= 64);
        const back = srs.reverse(parsed.local, forwarder);
        if (back.kind === 'digest') return back.digest === srs.digestOf(sender);
        assert.equal(back.kind, 'original');
        // For addresses of other forwarders the way back is shorter.
        if (back.kind === 'original' && !/^"?SRS/i.test(sender)) {
          assert.deepEqual(parseAddress(back.sender), before);
        }
        return true;
      }),
      { numRuns: 1_000 },
    );
  });

  test('case does not matter', () => {
    fc.assert(
      fc.property(senders, fc.boolean(), (sender, up) => {
        const address = srs.forwardAddress(sender, 'acme.test');
        const parsed = parseAddress(address);
        if (!parsed || !address.startsWith('SRS')) return;
        const ascii = (text: string) =>
          text.replace(/[a-z]/gi, (c) => (up ? c.toUpperCase() : c.toLowerCase()));
        const { kind } = srs.reverse(ascii(parsed.local), 'acme.test');
        assert.equal(kind, srs.reverse(parsed.local, 'acme.test').kind);
      }),
    );
  });

  test('a change of any character except its case is noticed', () => {
    const address = srs.forwardAddress('ann@example.com', 'acme.test');
    const good = parseAddress(address)?.local ?? '';
    fc.assert(
      fc.property(
        fc.nat(good.length - 1),
        fc.stringMatching(/^[a-z0-9=.]$/),
        (place, character) => {
          const changed = good.slice(0, place) + character + good.slice(place + 1);
          fc.pre(changed.toLowerCase() !== good.toLowerCase());
          const { kind } = srs.reverse(changed, 'acme.test');
          assert.ok(kind === 'forged' || kind === 'not_srs', kind);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  test('no input throws', () => {
    fc.assert(
      fc.property(fc.oneof(local, fc.string({ unit: anyCharacter })), (text) => {
        srs.reverse(text, 'acme.test');
        srs.forwardAddress(text, 'acme.test');
      }),
    );
  });
});
