// A reporter of node --test: what passed, a line each, in the form that .ci/tools/sdks reads.
import * as fs from 'node:fs'

const sdk = 'JavaScript, own client on the generated API'
const version = JSON.parse(fs.readFileSync(new URL('node_modules/@ydbjs/core/package.json', import.meta.url), 'utf8')).version

export default async function* results(source) {
	const lines = []
	for await (const { type, data } of source) {
		const [, name, way] = data?.name?.match(/^(.*) \((.*)\)$/) ?? []
		if (!name || (type !== 'test:pass' && type !== 'test:fail')) {
			continue // of all tests, those with a way
		}
		const left = data.skip ?? data.todo
		const result = type === 'test:fail' ? 'FAILED' : left === undefined ? 'passed' : 'not run'
		lines.push([sdk, version, name, way, result, typeof left === 'string' ? left : ''].join('\t') + '\n')
	}
	yield* lines.sort()
}
