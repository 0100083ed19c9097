import { SAMPLE_ADDRESS } from '../reference/sample-address.ts';

/** Samples that call this server: those of the API reference, and the setting of `URL` that the others use. */
function isOurs(code: Element): boolean {
  return code.closest('.examples') !== null || (code.textContent ?? '').includes('export URL=');
}

/** Puts the address of the server that the page came from where samples name the default one. */
export function showOwnAddress(): void {
  for (const code of document.querySelectorAll('.vp-doc pre code')) {
    if (!isOurs(code)) continue;
    const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const { currentNode } = texts;
      const text = currentNode.nodeValue ?? '';
      if (text.includes(SAMPLE_ADDRESS)) {
        currentNode.nodeValue = text.replaceAll(SAMPLE_ADDRESS, location.origin);
      }
    }
  }
}
