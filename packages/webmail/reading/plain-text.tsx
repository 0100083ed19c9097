/** Plain text, with links and with quoted text folded. */
import { linkify } from './linkify.ts';
import { splitQuoted } from './quoted-text.ts';

interface TextProps {
  readonly text: string;
  /** Somebody pressed an address. */
  readonly onMailto?: ((url: string) => void) | undefined;
}

const Linked = ({ text, onMailto }: TextProps) =>
  linkify(text).map((piece) =>
    piece.href === undefined ? (
      piece.text
    ) : (
      <a
        href={piece.href}
        target="_blank"
        rel="noopener noreferrer nofollow"
        onClick={(event: MouseEvent) => {
          if (!piece.href?.startsWith('mailto:') || !onMailto) return;
          event.preventDefault();
          onMailto(piece.href);
        }}
      >
        {piece.text}
      </a>
    ),
  );
Linked.props = ['text', 'onMailto'];

export const PlainText = ({ text, onMailto }: TextProps) => (
  <div class="plain-text">
    {splitQuoted(text.replace(/\r\n?/g, '\n').trimEnd()).map((block, at) =>
      block.isQuoted ? (
        <details key={at} class="quoted">
          <summary class="pill">Quoted text</summary>
          <Linked text={block.text} onMailto={onMailto} />
        </details>
      ) : (
        <div key={at}>
          <Linked text={block.text} onMailto={onMailto} />
        </div>
      ),
    )}
  </div>
);
PlainText.props = ['text', 'onMailto'];
