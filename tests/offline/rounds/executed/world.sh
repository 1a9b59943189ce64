# The world that the questions of this folder are asked and answered in.
put notes.txt 'alpha beta' 'TODO: call Bob' '' 'gamma foo' 'alpha beta ' 'error here' 'delta   x' 'Zeta foo alpha'
put todo.txt '  milk' 'bread' '    foo bar'
put data.csv 'name,age,city' 'ann,31,paris' 'bob,25,rome' 'cid,42,paris' 'dan,28,oslo'
put people.csv 'ann;31;paris' 'bob;25;rome'
put sales.csv 'jan,north,120' 'feb,south,80' 'mar,north,200' 'apr,west,95'
put scores.txt 'ann 90 math' 'bob 72 art' 'cid 85 math' 'dan 64 music' 'eve 98 math'
put names.txt bob ann cid bob Dan ann bob
put words.txt 'the day is sunny the the' 'the sunny is is'
put emails.txt 'Ann <ann@example.com>' 'no address' 'bob@test.org and more'
put config.ini '# settings' 'host=local=x' 'port=80=y' '#end=1=2'
put app.log '2024-01-01 INFO START done' '2024-01-01 DEBUG x' '2024-01-02 ERROR disk error' '2024-01-02 INFO ok done' \
    '2024-01-02 ERROR timeout' '2024-01-03 INFO END' '2024-01-03 WARN w' '2024-01-03 DEBUG y' '2024-01-04 error again' \
    '2024-01-04 ERROR net' '2024-01-05 INFO a' '2024-01-05 INFO b' '2024-01-06 INFO c done'
put access.log '10.0.0.1 GET / 200' '10.0.0.2 GET /a 404' '10.0.0.1 GET /b 200' '10.0.0.3 GET / 404' '10.0.0.1 GET /c 500' \
    '10.0.0.2 GET / 200' '10.0.0.4 GET / 200' '10.0.0.3 GET /d 200' '10.0.0.3 GET /e 200' '10.0.0.3 GET /e 200'
put a.txt one two three; put b.txt two three four; put 'my file.txt' foo; put report.pdf R; put page1 p
put script.sh '#!/bin/sh' 'echo hi'; put run.sh '#!/bin/sh' 'echo run'; put index.html '<p>red</p>'; put style.css 'a { color: red }'
put main.py 'import os' 'def main(): pass' '# TODO later'; put .env SECRET=1; put readme.md '# Read me' 'Getting started: foo'; put x.bak~ x; put draft~ y
put src/app.py 'import os' 'from utils import x' 'def main():' '    pass'; put src/utils.py 'def x(): return 1' '# TODO'; put src/old_utils.py 'x = 1'
put src/main.c 'int main() {}'; put src/util.h '#define X'; put src/lib/core.py 'import sys' 'def core(): pass'; put src/lib/core.js 'var foo'; put src/lib/v1.js 'let a'
put tests/test_app.py 'import os'; put tests/test_utils.py 'def test(): pass'; put docs/guide.md '# Guide' 'getting STARTED' 'foo'; put docs/api.md '# API' x
put docs/intro.txt 'hello world' Zeta; put docs/faq.txt 'a b c'; put docs/img/logo.png L; put docs/manual.pdf M
put logs/jan.log jan; put logs/feb.log feb f; put logs/mar.log m; big logs/big.log 5M; put logs/error.log e e2
put photos/a.jpg aa; put photos/b.JPG bbb; put photos/c.png cccc; put photos/trip/d.jpg ddddd; put 'photos/my cat.jpg' cat; put photos/e.jpeg eeeeeee; put photos/F.png f
put build/app.o o; put build/util.o u; put node_modules/x/index.js 'x()' y; big node_modules/x/big.bin 60M; put tmp/x.tmp 1; put tmp/y.tmp 22; put tmp/old.tmp 3; big tmp/huge.tmp 300k; put tmp/a.keep k
put old/keep.txt k; mkdir -p cache/empty backup; : > cache/c1; : > empty.txt; : > docs/zero.txt; big video.mp4 30M; big clip.mp4 2M; big image.iso 120M; big mid.bin 500k; mkdir .hidden; put .hidden/h h
mkdir gone; put gone/z z; tar -czf backup.tar.gz gone; rm -r gone; gzip -k words.txt; printf 'x\n' > test_1
age() { touch -d "$2" -a -m "$1"; }
for f in $(find . -type f -not -name '* *'); do age "$f" '5 days ago'; done
age logs/jan.log '60 days ago'; age logs/feb.log '40 days ago'; age logs/mar.log '2 days ago'; age logs/big.log '25 days ago'; age logs/error.log '50 days ago'
age tmp/old.tmp '30 days ago'; age tmp/huge.tmp '15 days ago'; age tmp/y.tmp '8 days ago'; age tmp/x.tmp '3 hours ago'; age notes.txt '30 hours ago'; age main.py '20 minutes ago'; age src/app.py '2 hours ago'
age src/utils.py '20 days ago'; age src/lib/core.py '90 days ago'; age docs/guide.md '70 days ago'; age docs/api.md '3 days ago'; age docs/intro.txt '4 days ago'; age video.mp4 '12 days ago'; age image.iso '100 days ago'; age data.csv '10 hours ago'
age docs/faq.txt '6 days ago'; age docs/manual.pdf '8 days ago'; age docs/zero.txt '9 days ago'; age photos '5 days ago'
chmod 644 $(find . -type f -not -name '* *'); chmod 777 style.css; chmod 755 run.sh; chmod 600 todo.txt; chmod 666 src/util.h; chmod 700 docs/img; chmod 777 docs/api.md
ln -s notes.txt link; ln -s nowhere broken; ln -s src srclink
