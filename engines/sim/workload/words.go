package workload

// commonWords are 256 English words of two to five letters. With its leading
// space each is one token of the simulated tokenizer, and so common that it is
// one in the vocabularies of most models.
const commonWords = "the of and to in is it you that he was for on are with as his they at be this from have or by one " +
	"had not but what all were when we there can an your which their said if do will each about how up " +
	"out them then she many some so these would other into has more her two like him see time could no " +
	"make than first been its who now my made over did down only way find use may water long very after " +
	"words just where most know get back much go good new write our used me man too any day same right " +
	"look think also came come work three word must does part even place well such here take why help put " +
	"years away again off went old great tell men say small every found still name home big give air line " +
	"set own under read last never us left end along while might next sound below saw both few those show " +
	"large often asked house world going want until form food keep feet land side boy once life took four " +
	"head above kind began live page got earth need far hand high year light parts let night being study " +
	"eyes soon times story boys since white days ever paper hard near best today sure means knew try told " +
	"young miles sun ways thing whole hear heard room sea top learn point city play five using money seen " +
	"car given order red door ship book table north"
