// Takes out of package-lock.json whom its packages ask for money: nobody needs these addresses here.
import * as fs from 'node:fs'

const file = new URL('package-lock.json', import.meta.url)
const lock = JSON.parse(fs.readFileSync(file, 'utf8'))
for (const entry of Object.values(lock.packages)) {
	delete entry.funding
}
fs.writeFileSync(file, JSON.stringify(lock, null, 2) + '\n')
