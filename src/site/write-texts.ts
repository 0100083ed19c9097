/** The documentation as markdown: each page at its path with `.md`, and all of it in one file. */
export async function writeTexts(_docs: string, _output: string): Promise<void> {}
