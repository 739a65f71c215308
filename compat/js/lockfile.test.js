// The lock file pins what is tested, and says nothing about where it comes from: npm takes it from its registry.
import assert from 'node:assert/strict'
import * as fs from 'node:fs'
import { test } from 'node:test'

for (const file of ['package.json', 'package-lock.json', '.npmrc']) {
	test(`${file} names no host`, () => {
		const lines = fs.readFileSync(new URL(file, import.meta.url), 'utf8').split('\n')
		assert.deepEqual(lines.filter((line) => /:\/\/|"resolved"|registry\s*=/.test(line)), [], 'see `npm run relock`')
	})
}
