import re,sys,subprocess,os,signal,time
lines=open(sys.argv[1]).read().split('\n')
out=["set -e"]; c={}; i=0
def script(t):
    for a,b in [("10.0.0.7","127.0.0.1"),("10.0.0.11","127.0.0.1"),("10.1.0.0/16","127.0.0.0/8"),("nfs://HOST/","nfs://127.0.0.1/")]: t=t.replace(a,b)
    o=[]
    for l in t.split('\n'):
        if re.match(r'plimsoll (serve|export|agent)\b',l):
            o.append(f'{l} > bg.log 2>&1 & PIDS="$PIDS $!"; for i in $(seq 40); do sleep 0.1; grep -q "^mount\\|^API\\|listening" bg.log && break; done; sleep 1; cat bg.log')
        else: o.append(l)
    return '\n'.join(o)
while i<len(lines):
    l=lines[i]
    if l.startswith('<!--'):
        t=l[4:]
        while '-->' not in t: i+=1; t+='\n'+lines[i]
        k,v=t.split('-->')[0].split(':',1); c[k.strip()]=v.strip()
    elif l.lstrip().startswith('```'):
        lang=l.strip()[3:]; t=[]
        i+=1
        while not lines[i].lstrip().startswith('```'): t.append(lines[i]); i+=1
        if 'before' in c: out.append(script(c['before']))
        if lang=='sh' and 'not run' not in c: out.append(f'echo "=== line {i}"'); out.append(script('\n'.join(t)))
        elif 'file' in c: out.append(f"cat > {c['file']} <<'XEND'\n"+'\n'.join(t)+'\nXEND')
        c={}
    i+=1
s='\n'.join(out)
r=subprocess.run(['bash','-c','trap \'kill $PIDS 2>/dev/null\' EXIT\nset -o pipefail\n'+s],stdin=subprocess.DEVNULL)
print("STATUS",r.returncode)
