/** Plain text, with links and with quoted text folded. */
import { linkify } from './linkify.ts';
import { splitQuoted } from './quoted-text.ts';

interface TextProps {
  readonly text: string;
  /** Somebody pressed an address. */
  readonly writeTo?: ((url: string) => void) | undefined;
}

const Linked = ({ text, writeTo }: TextProps) =>
  linkify(text).map((piece) =>
    piece.href === undefined ? (
      piece.text
    ) : (
      <a
        href={piece.href}
        target="_blank"
        rel="noopener noreferrer nofollow"
        onClick={(event: MouseEvent) => {
          if (!piece.href?.startsWith('mailto:') || !writeTo) return;
          event.preventDefault();
          writeTo(piece.href);
        }}
      >
        {piece.text}
      </a>
    ),
  );

export const PlainText = ({ text, writeTo }: TextProps) => (
  <div class="plain-text">
    {splitQuoted(text.replace(/\r\n?/g, '\n').trimEnd()).map((block, at) =>
      block.isQuoted ? (
        <details key={at} class="quoted">
          <summary class="pill">Quoted text</summary>
          <Linked text={block.text} writeTo={writeTo} />
        </details>
      ) : (
        <div key={at}>
          <Linked text={block.text} writeTo={writeTo} />
        </div>
      ),
    )}
  </div>
);
